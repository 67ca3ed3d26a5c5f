# SPDX-License-Identifier: Apache-2.0
"""The patch's own restart is skipped silently on one path of the upgrade, and the flag that says that it is still
to run stays. It outlives the cap with all mounts complete, so the cure does not wait for it for ever."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 8a51daa",)
FLAG = "/run/software_run_post_install"


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    Path(FLAG).touch()
    hour_ago = time.time() - 3600
    os.utime(FLAG, (hour_ago, hour_ago))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

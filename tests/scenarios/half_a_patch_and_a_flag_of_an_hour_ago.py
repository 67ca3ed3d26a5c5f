# SPDX-License-Identifier: Apache-2.0
"""The patch was killed after it had mounted /usr, an hour ago, and its flag is still there."""

from __future__ import annotations

import os
import time

from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = ("starlingx/update 8422b68 (Launchpad 1999262)",)


def build(host: ScenarioHost) -> None:
    host.patch(etc=False)
    host.write("/run/mount_pending")
    hour_ago = time.time() - 3600
    os.utime("/run/mount_pending", (hour_ago, hour_ago))


EXPECT = Expected(findings=(("split-tree", "wrong", "host", "/etc", "has stopped half-way"),))

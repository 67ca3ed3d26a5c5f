# SPDX-License-Identifier: Apache-2.0
"""The second live-apply of a boot was interrupted, and beside its reference there is that of the first, which was
done."""

from __future__ import annotations

import os
import time

from tests.scenarios.kit import OLD, Expected, ScenarioHost

REPORTED = ("coreos/rpm-ostree#3992",)
REFERENCE = "/ostree/repo/refs/heads/rpmostree/live-apply-inprogress"


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.unlock()
    host.write(f"/run/ostree/deployment-state/{OLD}.0/unlocked-development")
    host.write(f"/run/ostree/deployment-state/{OLD}.0/rpmostree-is-live.stamp")
    host.write("/ostree/repo/refs/heads/rpmostree/live-apply", "d" * 64)
    host.write(REFERENCE, "c" * 64)
    hour_ago = time.time() - 3600
    os.utime(REFERENCE, (hour_ago, hour_ago))


EXPECT = Expected(
    findings=(("live-apply-contradiction", "wrong", "host", REFERENCE, "partly of it and partly of dddd"),)
)

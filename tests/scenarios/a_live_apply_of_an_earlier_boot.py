# SPDX-License-Identifier: Apache-2.0
"""The reference of a live-apply outlives a reboot, its stamp and the overlay do not. Alone it says nothing."""

from __future__ import annotations

import os

from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = ("coreos/rpm-ostree#1567",)


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    for name in ("live-apply", "live-apply-inprogress"):
        host.write(f"/ostree/repo/refs/heads/rpmostree/{name}", "c" * 64)
        os.utime(f"/ostree/repo/refs/heads/rpmostree/{name}", (0, 0))


EXPECT = Expected()

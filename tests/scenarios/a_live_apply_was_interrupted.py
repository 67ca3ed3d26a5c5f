# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree was killed while it applied a commit to the live /usr, an hour ago: its stamp and its reference of
one in progress are there, and /usr is partly of the one and partly of the other."""

from __future__ import annotations

import os
import time

from tests.scenarios.kit import OLD, Expected, ScenarioHost

REPORTED = (
    "coreos/rpm-ostree#3992",
    "openshift/sandboxed-containers-operator#1349",
)
REFERENCE = "/ostree/repo/refs/heads/rpmostree/live-apply-inprogress"


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.unlock()
    host.write(f"/run/ostree/deployment-state/{OLD}.0/unlocked-development")
    host.write(f"/run/ostree/deployment-state/{OLD}.0/rpmostree-is-live.stamp")
    host.write(REFERENCE, "c" * 64)
    hour_ago = time.time() - 3600
    os.utime(REFERENCE, (hour_ago, hour_ago))


EXPECT = Expected(
    findings=(
        ("live-apply-contradiction", "wrong", "host", REFERENCE, "partly of it and partly of the booted commit"),
    )
)

# SPDX-License-Identifier: Apache-2.0
"""`ostree admin unlock` was run in a mount namespace of its own: it says that the deployment is unlocked, and the
host has no overlay."""

from __future__ import annotations

from tests.scenarios.kit import OLD, Expected, ScenarioHost

REPORTED = ("ostreedev/ostree#2653",)
FLAG = f"/run/ostree/deployment-state/{OLD}.0/unlocked-development"


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.write(FLAG)


EXPECT = Expected(findings=(("unlock-contradiction", "wrong", "host", FLAG, "flag-without-mount"),))

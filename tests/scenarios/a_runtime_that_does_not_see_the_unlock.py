# SPDX-License-Identifier: Apache-2.0
"""`ostree admin unlock` put an overlay on /usr, which the mount namespace of the runtime does not receive: what it
binds of /usr is without it. /etc is the same for both."""

from __future__ import annotations

from tests.scenarios.kit import PRIVATE, Expected, ScenarioHost

REPORTED = (
    "ostreedev/ostree#2653",
    "openshift/sandboxed-containers-operator#1349",
)


def build(host: ScenarioHost) -> None:
    host.process("containerd", propagation=PRIVATE, unit="containerd.service")
    host.unlock()


EXPECT = Expected(
    findings=(("runtime-namespace", "noted", "containerd.service", "/usr", "for the pods that it starts"),)
)

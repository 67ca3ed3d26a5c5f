# SPDX-License-Identifier: Apache-2.0
"""CRI-O and containerd run side by side on a node. A container's conmon lives in a namespace that was left behind;
a new one is of its runtime's, whichever of the two that is, and both see what the host has: a new container is
enough."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, PRIVATE, Bind, Expected, ScenarioHost

REPORTED = ("openshift/enhancements#593",)


def build(host: ScenarioHost) -> None:
    host.process("containerd")
    host.process("crio")
    host.process("conmon", propagation=PRIVATE, start=lambda: host.container("calico-node", [Bind(CNI, HOST_CNI)]))
    host.patch()


EXPECT = Expected(
    findings=(("runtime-namespace", "owed", "calico-node", CNI, "the container's conmon is in mount namespace"),),
    steps=("stop-container calico-node",),
)

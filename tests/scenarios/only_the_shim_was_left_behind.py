# SPDX-License-Identifier: Apache-2.0
"""containerd was restarted after the patch and sees what PID 1 sees; the shim of a pod is of the namespace that
was left behind, and serves all containers of the pod. A container stop keeps it: the pod needs a new sandbox, and
no unit a restart."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, PRIVATE, Bind, Expected, ScenarioHost

REPORTED = ("containerd/containerd#11912",)


def build(host: ScenarioHost) -> None:
    host.process("containerd")
    host.process(
        "containerd-shim", propagation=PRIVATE, start=lambda: host.container("calico-node", [Bind(CNI, HOST_CNI)])
    )
    host.patch()


EXPECT = Expected(
    findings=(("runtime-namespace", "owed", "calico-node", CNI, "the pod's shim is in mount namespace"),),
    steps=("stop-sandbox calico-node",),
)

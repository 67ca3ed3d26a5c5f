# SPDX-License-Identifier: Apache-2.0
"""containerd was restarted and sees the new tree; the pod's shim still lives in the mount namespace of before, and
makes each bind of the pod's containers. A new sandbox brings a new shim."""

from __future__ import annotations

from tests.host.pretend import pretend
from tests.host.test_daemons import containerd, process
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("containerd/containerd#11912",)
_MS_PRIVATE = 1 << 18


def build(host: ScenarioHost) -> None:
    new = f"{host.tree()}{CNI}"
    process(containerd)

    def shim() -> None:
        pretend("containerd-shim")
        host.container("calico-node", [Bind(CNI, HOST_CNI)])
        host.container("kube-multus", [Bind(new, HOST_CNI, says=CNI)])

    process(shim, propagation=_MS_PRIVATE)
    host.patch()


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "owed", "calico-node", CNI, "the pod's shim is in"),
        ("runtime-namespace", "wrong", "kube-multus", CNI, "it is fresh, but the pod's shim"),
    ),
    steps=("stop-sandbox calico-node",),
)

# SPDX-License-Identifier: Apache-2.0
"""containerd runs in a mount namespace that did not see the switch. Its unit's restart is recommended: no container
stop cures what it starts. A container that sees the host's new tree by itself would lose it with its next start."""

from __future__ import annotations

from tests.host.pretend import pretend
from tests.host.test_daemons import process
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("containerd/containerd#11912",)
_MS_PRIVATE = 1 << 18


def build(host: ScenarioHost) -> None:
    new = f"{host.tree()}{CNI}"

    def start() -> None:
        pretend("containerd")
        host._join("containerd.service")
        host.container("calico-node", [Bind(CNI, HOST_CNI)])
        host.container("kube-multus", [Bind(new, HOST_CNI, says=CNI)])

    process(start, propagation=_MS_PRIVATE)
    host.patch()


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "noted", "containerd.service", "/etc", "containerd (pid"),
        ("runtime-namespace", "unknown", "calico-node", CNI, "the runtime (containerd) is in"),
        ("runtime-namespace", "wrong", "kube-multus", CNI, "it is fresh, but the runtime (containerd)"),
    ),
    refusals=(("runtime-is-stale", "calico-node", "does not see the host's"),),
)

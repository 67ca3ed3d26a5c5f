# SPDX-License-Identifier: Apache-2.0
"""containerd lives in a mount namespace that was cut off from the host's: each container that it starts gets the
old tree. Its unit has to be restarted, and after that the pods' shims are of the old namespace still. kubelet is
where PID 1 is."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, PRIVATE, Bind, Expected, ScenarioHost

REPORTED = (
    "openshift/enhancements#593",
    "containerd/containerd#11912",
)


def build(host: ScenarioHost) -> None:
    host.process("kubelet", unit="kubelet.service")
    host.process(
        "containerd",
        propagation=PRIVATE,
        unit="containerd.service",
        start=lambda: host.container("calico-node", [Bind(CNI, HOST_CNI)]),
    )
    host.patch()


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "noted", "containerd.service", "/etc", "it uses that for the pods that it starts"),
        ("runtime-namespace", "unknown", "calico-node", CNI, "the runtime (containerd) is in mount namespace"),
    ),
    refusals=(("runtime-is-stale", "calico-node", "does not see the host's /etc/cni/net.d"),),
)

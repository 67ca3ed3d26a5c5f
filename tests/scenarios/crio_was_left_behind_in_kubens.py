# SPDX-License-Identifier: Apache-2.0
"""CRI-O and kubelet of OpenShift joined a mount namespace that is held at /run/kubens and was cut off from the
host's. A restart of their units alone joins it again. Of two processes of that name the second says nothing new."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, PRIVATE, Bind, Expected, ScenarioHost, bind

REPORTED = (
    "openshift/enhancements#593",
    "openshift/openshift-docs#51562",
    "OCPBUGS-83562",
)


def start(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.process("crio")
    host.process("kubelet")


def build(host: ScenarioHost) -> None:
    pid = host.process("crio", propagation=PRIVATE, start=lambda: start(host))
    host.write("/run/kubens")
    bind(f"/proc/{pid}/ns/mnt", "/run/kubens")
    host.patch()


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "noted", "crio", "/etc", "for the pods that it starts"),
        ("runtime-namespace", "noted", "kubelet", "/etc", "it uses that for what it mounts for pods"),
        ("runtime-namespace", "unknown", "calico-node", CNI, "the runtime (crio) is in mount namespace"),
    ),
    refusals=(("runtime-is-stale", "calico-node", "does not see the host's /etc/cni/net.d"),),
)

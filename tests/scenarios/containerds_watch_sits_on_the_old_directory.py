# SPDX-License-Identifier: Apache-2.0
"""Some hours after a patch: nobody restarted containerd, whose watch of the CNI directory is of the old tree's inode.
It has loaded what the new directory names first, so nothing has come of it yet, and it is told before somebody changes
the CNI configuration and wonders. It restarts nothing."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = (
    "containerd/containerd#6490",
    "containerd/containerd#10646",
    "containerd/containerd#11208",
    "containerd/containerd#7196",
)


def build(host: ScenarioHost) -> None:
    for tree in ("", host.tree()):
        host.network("k8s-pod-network", at=f"{tree}{CNI}")
    host.process("kubelet", unit="kubelet.service")
    host.process("containerd", unit="containerd.service")
    host.patch()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


def stand_ins(snapshot: Snapshot) -> Snapshot:
    asked = answered(snapshot)
    assert asked.runtime is not None
    runtime = msgspec.structs.replace(asked.runtime, networks=("cni-loopback", "k8s-pod-network"))
    return msgspec.structs.replace(asked, runtime=runtime)


EXPECT = Expected(
    findings=(
        ("runtime-watch-stale", "noted", "containerd.service", CNI, "it has loaded k8s-pod-network, which is what"),
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""The new tree lacked Multus' configuration, and Multus removed its own from the old tree when it ended: containerd
noticed that, loaded what was left by its path, and has not noticed that Multus has written it anew in the new tree.
New pods start without Multus and without any error. Only a restart of containerd cures that, or a write into the
directory that it still watches."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("k8snetworkplumbingwg/multus-cni#1361", "containerd/containerd#6490", "cri-o/ocicni#42")


def build(host: ScenarioHost) -> None:
    for tree in ("", host.tree()):
        host.network("k8s-pod-network", at=f"{tree}{CNI}")
    host.process("kubelet", unit="kubelet.service")
    host.process("containerd", unit="containerd.service")
    host.patch()
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.network("multus-cni-network", "00-multus.conf")


def stand_ins(snapshot: Snapshot) -> Snapshot:
    asked = answered(snapshot)
    assert asked.runtime is not None
    runtime = msgspec.structs.replace(asked.runtime, networks=("cni-loopback", "k8s-pod-network"))
    return msgspec.structs.replace(asked, runtime=runtime)


EXPECT = Expected(
    findings=(
        ("runtime-watch-stale", "owed", "containerd.service", CNI, "the directory names multus-cni-network first"),
    ),
    refusals=(("runtime-is-stale", "containerd.service", "it has loaded cni-loopback, k8s-pod-network"),),
)

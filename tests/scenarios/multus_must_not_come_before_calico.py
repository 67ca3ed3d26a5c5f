# SPDX-License-Identifier: Apache-2.0
"""Multus calls Calico's plugin with Calico's token. Restarted first it would start pods with a delegate that does
not work yet: Calico goes first, whatever the names of the pods are, and one in a system namespace before one that
is not."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("k8snetworkplumbingwg/multus-cni#1221", "k8snetworkplumbingwg/multus-cni#1361")


def build(host: ScenarioHost) -> None:
    host.container("kube-multus", [Bind(CNI, HOST_CNI)], pod="a-multus")
    host.container("calico-node", [Bind(CNI, HOST_CNI)], pod="z-calico")
    host.container("whereabouts", [Bind(CNI, HOST_CNI)], pod="b-whereabouts")
    host.container("a-stranger", [Bind(CNI, HOST_CNI)], pod="a-stranger")
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    return answered(snapshot)


EXPECT = Expected(
    findings=tuple(
        ("stale-mount", "owed", name, CNI, "no longer reaches the host")
        for name in ("a-stranger", "calico-node", "kube-multus", "whereabouts")
    ),
    steps=(
        "stop-container calico-node",
        "stop-container kube-multus",
        "stop-container whereabouts",
        "stop-container a-stranger",
    ),
)

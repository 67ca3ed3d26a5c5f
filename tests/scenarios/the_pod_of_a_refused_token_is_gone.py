# SPDX-License-Identifier: Apache-2.0
"""The token is bound to a pod that was deleted, so the API server refuses it: that is told once, as what it is. A
healthy token beside it, which was not asked about, is not mentioned."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost, answered

REPORTED = ("aws/amazon-vpc-cni-k8s#1868",)

FILE = f"{CNI}/multus.d/multus.kubeconfig"


def build(host: ScenarioHost) -> None:
    host.kubelets_pods("another")
    host.patch()
    host.token("calico", since=HOUR)
    host.token("multus", since=60, lasts=3607, pod="kube-multus-x0")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


def stand_ins(snapshot: Snapshot) -> Snapshot:
    asked = tuple(
        msgspec.structs.replace(one, accepted=False if one.writer == "multus" else None)
        for one in snapshot.credentials
    )
    return msgspec.structs.replace(answered(snapshot), credentials=asked)


EXPECT = Expected(
    findings=(("token-orphaned", "wrong", "host", FILE, "its pod is not on this node"),),
)

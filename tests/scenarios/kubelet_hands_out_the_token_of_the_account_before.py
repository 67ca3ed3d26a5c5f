# SPDX-License-Identifier: Apache-2.0
"""The service account of Multus was deleted and made again. The token is bound to a pod that runs, its end is an
hour away, and it is the one that kubelet has in the pod's volume: of the account before. The API server refuses
it. A restart of the container would bring the same token, so none is done; kubelet's is due, as that of a unit
that is behind, where the configuration lets units be restarted. Of Calico's, which kubelet has nothing to do
with, it is no cure."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("k8snetworkplumbingwg/multus-cni#852", "Mellanox/network-operator#1363")

FILE = f"{CNI}/multus.d/multus.kubeconfig"


def build(host: ScenarioHost) -> None:
    host.patch()
    host.network("multus-cni-network", "00-multus.conf")
    host.process("containerd", unit="containerd.service")
    host.process("kubelet", unit="kubelet.service")
    host.token("multus", since=60, lasts=3607, pod="kube-multus-x1")
    host.token("calico", since=60)
    host.project("kube-multus-x1", since=60, lasts=3607)
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


def stand_ins(snapshot: Snapshot) -> Snapshot:
    refused = tuple(msgspec.structs.replace(one, accepted=False) for one in snapshot.credentials)
    return msgspec.structs.replace(answered(snapshot), credentials=refused)


EXPECT = Expected(
    findings=(
        ("token-refused", "owed", "kubelet.service", FILE, "it is the one that kubelet has cached"),
        ("token-refused", "wrong", "host", f"{CNI}/calico-kubeconfig", "the API server refuses it"),
    ),
    refusals=(("runtime-is-stale", "kubelet.service", "the API server refuses it"),),
)

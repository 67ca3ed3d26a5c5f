# SPDX-License-Identifier: Apache-2.0
"""The key of service account tokens was rotated, and the API server was asked: it takes Multus' token, refuses
Calico's by its key, and whereabouts' because it is expired, which is told once."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost, answered

REPORTED = ("projectcalico/calico#12595", "projectcalico/calico#12941")


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("calico", since=5 * HOUR, key="of-last-year")
    host.token("multus", since=60, lasts=3607, pod="kube-multus-x1", key="of-this-year")
    host.token("whereabouts", since=2 * HOUR, lasts=3607, pod="kube-multus-x1")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.container("whereabouts", [Bind(CNI, HOST_CNI)])


def stand_ins(snapshot: Snapshot) -> Snapshot:
    asked = tuple(msgspec.structs.replace(one, accepted=one.writer == "multus") for one in snapshot.credentials)
    return msgspec.structs.replace(answered(snapshot), credentials=asked)


EXPECT = Expected(
    findings=(
        ("token-refused", "wrong", "host", f"{CNI}/calico-kubeconfig", "the API server refuses it"),
        ("token-expired", "wrong", "host", f"{CNI}/whereabouts.d/whereabouts.kubeconfig", "it has expired"),
    ),
)

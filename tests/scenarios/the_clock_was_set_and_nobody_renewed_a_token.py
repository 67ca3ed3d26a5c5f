# SPDX-License-Identifier: Apache-2.0
"""The clock was set forward by 25 hours, 14 hours ago, and back by one since. Calico's token should have been renewed
in that time, and was not: by the clock of the node it is over. The one of another was renewed, and its file is dated
by the clock that was set: what the token says is by the clock of the API server, and it is all right. A third one has
no beginning: by whose clock it was written nobody knows."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost, answered, clock_set

REPORTED = ("projectcalico/calico#9235",)
AHEAD = 24 * HOUR


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("calico", since=14.5 * HOUR)
    host.token("multus", since=60, lasts=3607, pod="kube-multus-x1")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.token("whereabouts", since=0, lasts=48 * HOUR, iat=None)


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """The clock of the machine that this runs on cannot be set."""
    credentials = tuple(
        msgspec.structs.replace(one, modified_at=one.modified_at + AHEAD) if one.writer == "multus" else one
        for one in snapshot.credentials
    )
    snapshot = msgspec.structs.replace(snapshot, taken_at=snapshot.taken_at + AHEAD, credentials=credentials)
    return answered(clock_set(snapshot, (25 * HOUR, 14 * HOUR), (-HOUR, 2 * HOUR)))


EXPECT = Expected(
    findings=(("token-expired", "wrong", "host", f"{CNI}/calico-kubeconfig", "it has expired"),),
)

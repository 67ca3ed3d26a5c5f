# SPDX-License-Identifier: Apache-2.0
"""The wall clock was set forward by 25 hours half an hour ago: by that clock each token is over at once, and the
writers sleep by another one. Mounts know no clock: the order of start and switch is told by mount ids, and what is
stale is cured as ever. Of tokens nothing is said until their writers had the time to renew them."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost, answered, clock_set

REPORTED = ("projectcalico/calico#9235",)


def build(host: ScenarioHost) -> None:
    for at in (CNI, f"{host.tree()}{CNI}"):
        host.token("calico", since=3 * HOUR, at=at)
        host.token("multus", since=HOUR / 2, lasts=3607, pod="kube-multus-x1", at=at)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """The clock of the machine that this runs on cannot be set."""
    jump = 25 * HOUR
    containers = tuple(msgspec.structs.replace(one, started_at=one.started_at + jump) for one in snapshot.containers)
    snapshot = msgspec.structs.replace(snapshot, taken_at=snapshot.taken_at + jump, containers=containers)
    return answered(clock_set(snapshot, (jump, HOUR / 2)))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

# SPDX-License-Identifier: Apache-2.0
"""The wall clock was set forward by 25 hours: tokens are expired at once. Mounts know no clock: the order of start
and switch is told by mount ids, and what is stale is cured as ever."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("projectcalico/calico#9235",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """The clock of the machine that this runs on cannot be set."""
    jump = 25 * 3600.0
    containers = tuple(msgspec.structs.replace(one, started_at=one.started_at + jump) for one in snapshot.containers)
    return answered(msgspec.structs.replace(snapshot, taken_at=snapshot.taken_at + jump, containers=containers))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

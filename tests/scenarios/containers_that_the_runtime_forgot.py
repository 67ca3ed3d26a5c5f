# SPDX-License-Identifier: Apache-2.0
"""The runtime was restarted and did not find its containers again: they run on and nobody manages them, so nobody
can stop one, either."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = (
    "cri-o/cri-o#1726",
    "cri-o/cri-o#5569",
)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """A runtime that forgot one."""
    return answered(snapshot, unknown=("calico-node",))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("runtime-does-not-know-it", "calico-node", "lists no such running container"),),
)

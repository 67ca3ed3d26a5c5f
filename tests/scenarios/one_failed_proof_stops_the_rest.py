# SPDX-License-Identifier: Apache-2.0
"""Restarting calico-node did not cure it: something else is wrong on this node, and the other stale containers are
left alone until a person has looked."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered, remembered

REPORTED = ("projectcalico/calico#7220", "NVIDIA/gpu-operator#712")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """A ledger that has the failed proof."""
    return remembered(answered(snapshot), acts=(("calico-node", "not-cured"),))


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),
        ("stale-mount", "owed", "kube-multus", CNI, "no longer reaches the host"),
    ),
    refusals=(("breaker", "", "did not cure it"),),
)

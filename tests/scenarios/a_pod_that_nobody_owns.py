# SPDX-License-Identifier: Apache-2.0
"""A pod that no controller made: nothing says that kubelet would start its container again."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("canonical/microk8s#4184",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """A pod without a label of a controller."""
    return answered(snapshot, labels={"calico-node": {}})


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("restart-policy-unknown", "calico-node", "no controller's label says its restart policy"),),
)

# SPDX-License-Identifier: Apache-2.0
"""The container was restarted once for this switch and is stale again: what did not help once does not help twice,
and kubelet would back off. It is an alarm, and no second stop."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered, remembered

REPORTED = ("kubernetes/kubernetes#133472", "projectcalico/calico#7584", "projectcalico/calico#8368")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """A ledger that has the first restart."""
    return remembered(answered(snapshot), acts=(("calico-node", "cured"),))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("already-restarted", "calico-node", "restarted once already"),),
)

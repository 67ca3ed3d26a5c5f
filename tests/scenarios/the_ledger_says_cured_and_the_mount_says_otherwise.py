# SPDX-License-Identifier: Apache-2.0
"""A tool's own notes said that all was applied while the mount was stale. Here the ledger says of this very
container that it was cured: the mount decides what is found, and the ledger only that it is not stopped twice."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered, remembered

REPORTED = ("canonical/snapd#17353",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """A ledger that is wrong."""
    return remembered(answered(snapshot), acts=(("calico-node", "cured"),), same_container=True)


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("already-restarted", "calico-node", "stopping it was tried"),),
)

# SPDX-License-Identifier: Apache-2.0
"""The disk of the ledger is damaged: without it a second restart could not be told from the first, so there is
none."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import History, Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("canonical/snapd#17353 (a tool that lost its own state)",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """A ledger that cannot be read."""
    return msgspec.structs.replace(answered(snapshot), history=History(problem="disk I/O error"))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("ledger-unusable", "", "disk I/O error"),),
)

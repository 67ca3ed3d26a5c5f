# SPDX-License-Identifier: Apache-2.0
"""A person paused the cure while he works on the node."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import History, Pause, Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("bottlerocket-os/bottlerocket-update-operator#590",)
PAUSE = Pause(since=1.0, boot_id="an earlier boot", seconds=1e10, who="root", why="maintenance")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """An order, as the ledger keeps it."""
    return msgspec.structs.replace(answered(snapshot), history=History(pause=PAUSE))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("paused", "", "root ordered it: maintenance"),),
)

# SPDX-License-Identifier: Apache-2.0
"""The system is being stopped: whatever is stale ends by itself."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("ostreedev/ostree#2543 (what the way down does to a switch)",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """systemd's answer."""
    return answered(snapshot, system="stopping")


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("shutting-down", "", "stopping the system"),),
)

# SPDX-License-Identifier: Apache-2.0
"""The patch's own script stopped the container, and kubelet started it again: it is fresh, and there is nothing
left to do."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered, remembered

REPORTED = ("starlingx/update 23d2727 (Launchpad 2144903)", "projectcalico/calico#7208")


def build(host: ScenarioHost) -> None:
    old = host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    old.kill()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """A ledger that remembers the switch."""
    return remembered(answered(snapshot))


EXPECT = Expected()

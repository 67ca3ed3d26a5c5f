# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree's daemon is at work while a container is stale: a live-apply has begun, and has written nothing down
yet."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import RpmOstreeView, Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("coreos/rpm-ostree#1755",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.overlay(CNI)


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """No daemon is needed for what the plan makes of its answer."""
    view = RpmOstreeView(installed=True, owned=True, transaction=True, title="LiveFs of debian")
    return msgspec.structs.replace(answered(snapshot), rpm_ostree=view)


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("transaction-under-way", "", "LiveFs of debian is under way"),),
)

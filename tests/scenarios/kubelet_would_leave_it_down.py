# SPDX-License-Identifier: Apache-2.0
"""The container has crashed again and again: kubelet waits minutes before it starts it once more. Stopped now, a
token writer that is stale would become one that is down."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("kubernetes/kubernetes#133472",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def seventh(snapshot: Snapshot) -> Snapshot:
    assert snapshot.runtime is not None
    containers = tuple(msgspec.structs.replace(one, attempt=6) for one in snapshot.runtime.containers)
    return msgspec.structs.replace(snapshot, runtime=msgspec.structs.replace(snapshot.runtime, containers=containers))


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """The runtime's list, where this is the seventh attempt."""
    return seventh(answered(snapshot))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("kubelet-back-off", "calico-node", "kubelet would leave it down"),),
)

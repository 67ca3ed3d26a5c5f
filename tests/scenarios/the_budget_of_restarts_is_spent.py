# SPDX-License-Identifier: Apache-2.0
"""Restarts cost too much on this node today: the limit that was set is reached."""

from __future__ import annotations

from ostreewatchd.model import Settings, Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = (
    "NVIDIA/gpu-operator#712",
    "containerd/containerd#13285 (a loop of restarts)",
)
SETTINGS = Settings(per_hour=0)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """As ever."""
    return answered(snapshot)


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("budget", "calico-node", "RestartsPerHour=0 are spent"),),
)

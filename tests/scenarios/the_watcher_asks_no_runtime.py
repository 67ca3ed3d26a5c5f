# SPDX-License-Identifier: Apache-2.0
"""As the watcher sees it, which asks no process: containerd's watch is of the old directory, and what it has loaded
it would have to say itself."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, Expected, ScenarioHost

REPORTED = ("containerd/containerd#6490",)


def build(host: ScenarioHost) -> None:
    host.process("kubelet", unit="kubelet.service")
    host.process("containerd", unit="containerd.service")
    host.patch()
    host.network("k8s-pod-network")


def stand_ins(snapshot: Snapshot) -> Snapshot:
    return snapshot


EXPECT = Expected(
    findings=(("runtime-watch-stale", "noted", "containerd.service", CNI, "what it has loaded was not asked"),),
)

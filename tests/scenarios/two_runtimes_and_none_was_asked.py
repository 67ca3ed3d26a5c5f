# SPDX-License-Identifier: Apache-2.0
"""Two runtimes, and the watcher asks neither: which of them makes the pods is not known, so their watches are no
matter."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = ("containerd/containerd#6490",)


def build(host: ScenarioHost) -> None:
    host.process("kubelet", unit="kubelet.service")
    host.process("crio")
    host.process("containerd", unit="containerd.service")
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    return snapshot


EXPECT = Expected()

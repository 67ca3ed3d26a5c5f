# SPDX-License-Identifier: Apache-2.0
"""The runtime is deadlocked and answers nothing: a stop would be one call more that hangs."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import RuntimeView, Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = (
    "cri-o/cri-o#9754",
    "bottlerocket-os/bottlerocket#2512",
)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """No runtime that hangs is needed for what the plan makes of it."""
    return msgspec.structs.replace(answered(snapshot), runtime=RuntimeView(socket="", problem="no answer within 3 s"))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("runtime-not-answering", "", "no answer within 3 s"),),
)

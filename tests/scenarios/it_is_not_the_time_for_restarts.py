# SPDX-License-Identifier: Apache-2.0
"""Restarts are allowed on Sunday nights alone, and it is Friday."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Settings, Snapshot, Window
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("NVIDIA/gpu-operator#712 (restarts at an unwanted time)",)
SETTINGS = Settings(windows=(Window(start=6 * 1440 + 120, minutes=120),))


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """The time of day is fixed: a window is of the wall clock."""
    return msgspec.structs.replace(answered(snapshot), taken_at=1_800_000_000.0)


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("outside-window", "", "restarts wait for the next one"),),
)

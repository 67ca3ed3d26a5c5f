# SPDX-License-Identifier: Apache-2.0
"""systemd does not answer, so it is not known whether the system is going down."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot, SystemView
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("coreos/fedora-coreos-tracker#942",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """No systemd that hangs is needed for what the plan makes of it."""
    return msgspec.structs.replace(answered(snapshot), system=SystemView(problem="no answer within 3 s"))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("systemd-not-answering", "", "no answer within 3 s"),),
)

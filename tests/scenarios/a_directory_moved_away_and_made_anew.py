# SPDX-License-Identifier: Apache-2.0
"""/etc/cni/net.d was moved aside and made anew: no mount, no other filesystem, the same path, another directory.
snapd's layouts keep the inode just so."""

from __future__ import annotations

import os
from pathlib import Path

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered, remembered

REPORTED = ("canonical/snapd#17353", "projectcalico/calico#9295")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    os.rename(CNI, f"{CNI}.old")
    os.mkdir(CNI)
    Path(f"{CNI}/10-calico.conflist").write_text("new")


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """No mount tells the order; the ledger knew the state before."""
    return remembered(answered(snapshot))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "it shows directory"),),
    steps=("stop-container calico-node",),
)

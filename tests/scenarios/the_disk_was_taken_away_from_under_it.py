# SPDX-License-Identifier: Apache-2.0
"""A disk was mounted at /etc/cni/net.d and taken away again: the container holds a filesystem that the host has
mounted nowhere."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import (
    CNI,
    HOST_CNI,
    Bind,
    Expected,
    Layout,
    ScenarioHost,
    answered,
    mount,
    remembered,
    umount,
)

REPORTED = (
    "prometheus-operator/prometheus-operator#2578",
    "openebs/cstor-operators#140",
)
LAYOUT = Layout.PLAIN


def build(host: ScenarioHost) -> None:
    mount("tmpfs", CNI, "tmpfs", data="mode=755")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    umount(CNI)


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """What was taken away tells no order; the ledger knew the state before."""
    return remembered(answered(snapshot))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "has that filesystem mounted nowhere any more"),),
    steps=("stop-container calico-node",),
)

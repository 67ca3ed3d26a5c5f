# SPDX-License-Identifier: Apache-2.0
"""kubelet was stopped with its runtime and nobody started it again: a container that is stopped now would stay
stopped."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = (
    "bottlerocket-os/bottlerocket#4721",
    "openshift/machine-config-operator#6545",
)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """No kubelet can be stopped here."""
    return answered(snapshot, kubelet=("kubelet-inactive", "no kubelet process is running"))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("kubelet-inactive", "", "no kubelet process"),),
)

# SPDX-License-Identifier: Apache-2.0
"""An installer of CNI plugins runs as a Job, and a Job's container that is stopped counts as failed: it is left
alone."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("kata-containers/packaging#576",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """A pod with the labels of a Job."""
    return answered(
        snapshot, labels={"calico-node": {"batch.kubernetes.io/job-name": "install", "job-name": "install"}}
    )


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("restart-policy-not-always", "calico-node", "its labels are a Job's"),),
)

# SPDX-License-Identifier: Apache-2.0
"""A CNI agent runs as a static pod, whose restart policy only its manifest tells; of one the manifest is gone.
kubelet's name for its node is not the host's, so the manifest is found by the longest name that fits."""

from __future__ import annotations

from ostreewatchd.model import Snapshot, StaticPod
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("rancher/rke2#9313",)
FROM_FILE = {"kubernetes.io/config.source": "file"}


def build(host: ScenarioHost) -> None:
    host.container("cilium-agent", [Bind(CNI, HOST_CNI)], pod="cilium-extra-node7")
    host.container("lost", [Bind(CNI, HOST_CNI)], pod="lost-node7")
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """kubelet's manifests."""
    manifests = [
        StaticPod(namespace="kube-system", name=name, restart_policy=policy, manifest=f"/etc/kubernetes/{name}.yaml")
        for name, policy in (("cilium", "Never"), ("cilium-extra", "Always"), ("cilium-extra-long", "Never"))
    ]
    elsewhere = StaticPod(
        namespace="other", name="lost", restart_policy="Always", manifest="/etc/kubernetes/lost.yaml"
    )
    annotations = {"cilium-agent": FROM_FILE, "lost": FROM_FILE}
    return answered(snapshot, annotations=annotations, static_pods=[*manifests, elsewhere])


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "cilium-agent", CNI, "no longer reaches the host"),
        ("stale-mount", "owed", "lost", CNI, "no longer reaches the host"),
    ),
    steps=("stop-container cilium-agent",),
    refusals=(("restart-policy-unknown", "lost", "its manifest was not found"),),
)

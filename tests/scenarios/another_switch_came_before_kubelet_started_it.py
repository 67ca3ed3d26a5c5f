# SPDX-License-Identifier: Apache-2.0
"""A second patch came while kubelet had not yet started again what the first one's remediation had stopped: the next
writer waits, for two of them must not be down at once."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import PastAct, RuntimePod, Snapshot, Subject
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered, remembered

REPORTED = ("starlingx/update 23d2727",)


def build(host: ScenarioHost) -> None:
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """calico-node's sandbox is up and has no running container; its act ended with the first switch."""
    snapshot = remembered(answered(snapshot))
    runtime = snapshot.runtime
    assert runtime is not None
    calico = Subject(namespace="kube-system", pod="calico-node-x1", pod_uid="calico", container="calico-node")
    pod = RuntimePod(
        sandbox_id="sandbox of calico-node", namespace=calico.namespace, name=calico.pod, uid=calico.pod_uid,
        ready=True, labels={}, annotations={},
    )  # fmt: skip
    act = PastAct(
        id=1, switch_id="s1", step="stop-container", subject=calico, because="it was stale",
        intent_at=snapshot.taken_at - 5, intent_boottime=snapshot.taken_boottime - 5, boot_id=snapshot.node.boot_id,
        outcome="superseded", outcome_at=snapshot.taken_at - 1, proof="another switch came before the proof",
    )  # fmt: skip
    return msgspec.structs.replace(
        snapshot,
        runtime=msgspec.structs.replace(runtime, pods=(*runtime.pods, pod)),
        history=msgspec.structs.replace(snapshot.history, acts=(act,)),
    )


EXPECT = Expected(
    findings=(("stale-mount", "owed", "kube-multus", CNI, "no longer reaches the host"),),
    refusals=(("waits-for-restart", "", "kube-system/calico-node-x1/calico-node was stopped (act 1, "),),
)

# SPDX-License-Identifier: Apache-2.0
"""Whether kubelet starts a stopped container of a pod again, told without any credential."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.model import RuntimePod, Snapshot, StaticPod

_SOURCE_ANNOTATION = "kubernetes.io/config.source"


def restart_policy(snapshot: Snapshot, pod: RuntimePod) -> tuple[str, str]:
    """`(policy, how it is known)`; the policy is empty where it is not known.

    Source: the API's validation allows only Always in templates of DaemonSets, ReplicaSets and StatefulSets,
    whose controllers put these labels on their pods; a Job's pods may not have Always."""
    labels = pod.labels
    if pod.annotations.get(_SOURCE_ANNOTATION) in ("file", "http"):
        return _static_policy(snapshot, pod)
    if "batch.kubernetes.io/job-name" in labels or "job-name" in labels:
        return "OnFailure", "its labels are a Job's"
    if "controller-revision-hash" in labels and "pod-template-generation" in labels:
        return "Always", "its labels are a DaemonSet's"
    if labels.get("statefulset.kubernetes.io/pod-name") == pod.name:
        return "Always", "its labels and its name are a StatefulSet's"
    if labels.get("pod-template-hash") and f"-{labels['pod-template-hash']}-" in pod.name:
        return "Always", "its labels and its name are a ReplicaSet's"
    return "", "no manifest and no controller's label says its restart policy"


def _static_policy(snapshot: Snapshot, pod: RuntimePod) -> tuple[str, str]:
    """kubelet appends its node's name to a static pod's, and that may be another than the host's: of the manifests
    whose name leads up to a dash in the pod's, the longest is meant."""
    found: Optional[StaticPod] = None
    for static in snapshot.kubelet.static_pods if snapshot.kubelet else ():
        fits = static.namespace == pod.namespace and pod.name.startswith(f"{static.name}-")
        if fits and (found is None or len(static.name) > len(found.name)):
            found = static
    if found is not None:
        return found.restart_policy, f"restartPolicy {found.restart_policy} in {found.manifest}"
    return "", "it is a static pod and its manifest was not found"

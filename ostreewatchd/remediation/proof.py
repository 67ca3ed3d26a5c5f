# SPDX-License-Identifier: Apache-2.0
"""Whether a container that was stopped is there again and shows what the host has: the only notion of success."""

from __future__ import annotations

from typing import Literal, NamedTuple, Optional

from ostreewatchd.judge import judge
from ostreewatchd.model import Container, RuntimeView, Snapshot, Subject
from ostreewatchd.remediation.tokenproof import Expected, missing, told

_NONE: Expected = {}


class Proof(NamedTuple):
    """What a look says of a subject that was stopped."""

    verdict: Literal["cured", "not-yet", "stale"]
    text: str
    attempt: Optional[int] = None
    """Kubelet's number of the successor, once its log is there."""
    failure: str = "still-stale"
    """What it would be called if nothing changed any more: see PastAct.failure."""


def prove(snapshot: Snapshot, subject: Subject, tokens: Expected = _NONE) -> Proof:
    """Judge a fresh look for the successor of the subject's container. Pure.

    Only what a restart was due for counts: the CNI directories that the successor holds by themselves. What else
    it holds may be unknown or noted, before as after. `tokens`: what it must have written anew."""
    if snapshot.torn:
        return Proof("not-yet", snapshot.torn)
    successor: Optional[Container] = None
    for container in snapshot.containers:
        if container.id == subject.container_id:
            return Proof("not-yet", "it still runs", failure="container-will-not-stop")
        if (container.pod.uid, container.name) == subject.key:
            successor = container
    if successor is None:
        return Proof("not-yet", "kubelet has not started it again", failure="container-will-not-start")
    due = {bind.path: bind for bind in successor.binds if not bind.via and snapshot.cni_directory_of(bind.host_path)}
    for finding in judge(snapshot):
        if finding.subject.container_id == successor.id and finding.inside in due:
            if finding.owed:
                return Proof("stale", f"the new container {successor.id[:12]} is stale too: {finding.reason}")
            if finding.verdict == "unknown":
                return Proof("not-yet", f"the new container {successor.id[:12]}: {finding.reason}")
    why = missing(snapshot, successor, tokens)
    if why:
        return Proof(
            "not-yet", f"the new container {successor.id[:12]}: {why}", successor.attempt, "token-not-renewed"
        )
    attempt = f" (attempt {successor.attempt})" if successor.attempt is not None else ""
    shown = ", ".join(
        f"{bind.host_path} is {bind.sight.identity} on the host and, as {bind.path}, in it" for bind in due.values()
    )
    text = f"container {successor.id[:12]}{attempt} in the same pod: {shown or 'nothing of it is stale'}"
    return Proof("cured", "; ".join(one for one in (text, told(snapshot, tokens)) if one), successor.attempt)


def has_directory(snapshot: Snapshot, subject: Subject) -> bool:
    """Whether kubelet is known to keep a directory for the subject's pod."""
    kubelet = snapshot.kubelet
    return kubelet is not None and kubelet.pods is not None and subject.pod_uid in kubelet.pods


def is_forgotten(snapshot: Snapshot, subject: Subject) -> bool:
    """Whether a pod of which kubelet had a directory is known to be gone for good: its sandbox does not run, and
    kubelet has removed the directory, as it does when it knows the pod no more. An ended sandbox may be listed for a
    minute yet."""
    runtime, kubelet = snapshot.runtime, snapshot.kubelet
    if snapshot.torn or runtime is None or runtime.problem or kubelet is None or kubelet.pods is None:
        return False
    return not runtime.has_ready_pod(subject.pod_uid) and subject.pod_uid not in kubelet.pods


def is_gone(runtime: RuntimeView, kind: str, subject: Subject) -> bool:
    """What the runtime alone tells when nothing has come in all the time that it may take. After a sandbox stop
    kubelet may still have to make another: an ended one is listed as long as the pod is."""
    return not (runtime.has_pod(subject.pod_uid) if kind == "stop-sandbox" else runtime.has_ready_pod(subject.pod_uid))

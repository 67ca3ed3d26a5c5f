# SPDX-License-Identifier: Apache-2.0
"""Whether a container that was stopped is there again and shows what the host has: the only notion of success."""

from __future__ import annotations

from typing import Literal, NamedTuple, Optional

from ostreewatchd.judge import judge
from ostreewatchd.model import Container, Snapshot, Subject


class Proof(NamedTuple):
    """What a look says of a subject that was stopped."""

    verdict: Literal["cured", "not-yet", "stale"]
    text: str
    attempt: Optional[int] = None
    """Kubelet's number of the successor, once its log is there."""
    failure: str = "still-stale"
    """What it would be called if nothing changed any more: see PastAct.failure."""


def prove(snapshot: Snapshot, subject: Subject) -> Proof:
    """Judge a fresh look for the successor of the subject's container. Pure.

    Only what a restart was due for counts: the CNI directories that the successor holds by themselves. What else
    it holds may be unknown or noted, before as after."""
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
    attempt = f" (attempt {successor.attempt})" if successor.attempt is not None else ""
    shown = ", ".join(
        f"{bind.host_path} is {bind.sight.identity} on the host and, as {bind.path}, in it" for bind in due.values()
    )
    text = f"container {successor.id[:12]}{attempt} in the same pod: {shown or 'nothing of it is stale'}"
    return Proof("cured", text, successor.attempt)

# SPDX-License-Identifier: Apache-2.0
"""Whether a container that was stopped is there again and shows what the host has: the only notion of success."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ostreewatchd.judge import judge
from ostreewatchd.model import Container, Snapshot, Subject


class Proof(NamedTuple):
    """`verdict`: cured, not-yet, stale."""

    verdict: str
    text: str


def prove(snapshot: Snapshot, subject: Subject) -> Proof:
    """Judge a fresh look for the successor of the subject's container. Pure."""
    successor: Optional[Container] = None
    for container in snapshot.containers:
        if container.id == subject.container_id:
            return Proof("not-yet", "it still runs")
        if (container.pod.uid, container.name) == subject.key:
            successor = container
    if successor is None:
        return Proof("not-yet", "kubelet has not started it again")
    for finding in judge(snapshot):
        if finding.subject.container_id == successor.id and (finding.owed or finding.verdict == "unknown"):
            if finding.owed:
                return Proof("stale", f"the new container {successor.id[:12]} is stale too: {finding.reason}")
            return Proof("not-yet", f"the new container {successor.id[:12]}: {finding.reason}")
    attempt = f" (attempt {successor.attempt})" if successor.attempt is not None else ""
    shown = ", ".join(
        f"{bind.host_path} is {bind.sight.identity} on the host and, as {bind.path}, in it"
        for bind in successor.binds
        if bind.host_path in snapshot.cni_directories and not bind.via
    )
    return Proof(
        "cured", f"container {successor.id[:12]}{attempt} in the same pod: {shown or 'nothing of it is stale'}"
    )

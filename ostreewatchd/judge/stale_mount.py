# SPDX-License-Identifier: Apache-2.0
"""A container's bind still shows the directory that it was started on, and not what the host has there now.

Source: starlingx/update 23d2727 (Launchpad 2144903); projectcalico/calico#9428; proc_pid_mountinfo(5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ostreewatchd.judge.due import due
from ostreewatchd.judge.replaced_file import replaced
from ostreewatchd.judge.rule import Cure, Rule
from ostreewatchd.judge.runtime_namespace import differs
from ostreewatchd.judge.stale_certificates import holds_old
from ostreewatchd.model import Bind, Container, Finding, Reference, Snapshot, short_name

rule = Rule("stale-mount", cure=Cure.RESTART_CONTAINER)


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each bind against what a new bind would show, by identity alone (DESIGN invariant 1)."""
    for container in snapshot.containers:
        stale_above: list[str] = []
        for bind in container.binds:
            finding = _judge(snapshot, container, bind)
            if finding is None:
                continue
            if not finding.owed and any(bind.path.startswith(above + "/") for above in stale_above):
                continue  # Said already: what lies below a stale directory is stale with it.
            yield finding
            if finding.verdict == "stale" and not finding.owed:
                stale_above.append(bind.path.rstrip("/"))


def _judge(snapshot: Snapshot, container: Container, bind: Bind) -> Optional[Finding]:
    reference = snapshot.reference(bind.host_path, container.maker(bind))
    if reference is None:
        return rule.unknown(container, bind, because="no reference was looked up for this path")
    if bind.via and bind.sight.absent and reference.sight.absent:
        return None
    if bind.sight.identity is None:
        return rule.unknown(container, bind, because=f"in the container: {bind.sight.problem}", expected=reference)
    if reference.sight.identity is None:
        return rule.unknown(container, bind, because=f"on the host: {reference.sight.problem}")
    if replaced(bind, reference) or differs(snapshot, container, bind) is not None:
        return None  # Rules of their own.
    if bind.sight.identity == reference.sight.identity:
        return None
    if holds_old(bind, reference):
        return None
    owed, why = due(snapshot, bind, reference)
    return rule.stale(container, bind, expected=reference, owed=owed, because=f"{_parted(bind, reference)}; {why}")


def _parted(bind: Bind, reference: Reference) -> str:
    mine, theirs = bind.sight, reference.sight
    text = f"it shows directory {mine.identity}, the host has {theirs.identity}"
    if mine.deployment and theirs.deployment and mine.deployment != theirs.deployment:
        text = f"it shows deployment {short_name(mine.deployment)}, the host has {short_name(theirs.deployment)}"
    if mine.removed:
        text += "; what it shows was removed, so nothing can be made in it any more"
    if not bind.device_is_mounted:
        text += "; the host has that filesystem mounted nowhere any more"
    return text

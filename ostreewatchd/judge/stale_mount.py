# SPDX-License-Identifier: Apache-2.0
"""A container's bind still shows the directory that it was started on, and not what the host has there now.

Source: starlingx/update 23d2727 (Launchpad 2144903); projectcalico/calico#9428; proc_pid_mountinfo(5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ostreewatchd.judge.replaced_file import replaced
from ostreewatchd.judge.rule import Cure, Rule
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
    reference = snapshot.reference(bind.host_path, container.binder.mount_namespace)
    if reference is None:
        return rule.unknown(container, bind, because="no reference was looked up for this path")
    if bind.via and bind.sight.absent and reference.sight.absent:
        return None
    if bind.sight.identity is None:
        return rule.unknown(container, bind, because=f"in the container: {bind.sight.problem}", expected=reference)
    if reference.sight.identity is None:
        return rule.unknown(container, bind, because=f"on the host: {reference.sight.problem}")
    if replaced(bind, reference):
        return None  # A rule of its own.
    if bind.sight.identity == reference.sight.identity:
        return _binder_is_stale(snapshot, container, bind, reference)
    other = _differs_from_init(snapshot, bind, reference)
    if other:
        return rule.unknown(container, bind, because=other, expected=reference)
    owed, why = _owed(snapshot, bind, reference)
    return rule.stale(container, bind, expected=reference, owed=owed, because=f"{_parted(bind, reference)}; {why}")


def _binder_is_stale(snapshot: Snapshot, container: Container, bind: Bind, reference: Reference) -> Optional[Finding]:
    """The container has what its binder sees; if PID 1 sees something else, no container restart helps."""
    other = _differs_from_init(snapshot, bind, reference)
    return rule.unknown(container, bind, because=other, expected=reference) if other else None


def _differs_from_init(snapshot: Snapshot, bind: Bind, reference: Reference) -> str:
    if reference.mount_namespace == snapshot.init_mount_namespace:
        return ""
    init = snapshot.reference(bind.host_path, snapshot.init_mount_namespace)
    if init is None or init.sight.identity is None or init.sight.identity == reference.sight.identity:
        return ""
    return (
        f"the runtime's own mount namespace {reference.mount_namespace} shows {reference.sight.identity} where"
        f" PID 1 has {init.sight.identity}: a new container would get the runtime's, so restarting it cures nothing"
    )


def _parted(bind: Bind, reference: Reference) -> str:
    mine, theirs = bind.sight, reference.sight
    if mine.deployment and theirs.deployment and mine.deployment != theirs.deployment:
        return f"it shows deployment {short_name(mine.deployment)}, the host has {short_name(theirs.deployment)}"
    return f"it shows directory {mine.identity}, the host has {theirs.identity}"


def _was_replaced_in_place(snapshot: Snapshot, bind: Bind, reference: Reference) -> bool:
    """What lies below a CNI directory is no watched directory itself: only another tree makes it a leftover."""
    mine, theirs = bind.sight, reference.sight
    if bind.host_path in snapshot.cni_directories or mine.identity is None or theirs.identity is None:
        return False
    return mine.deployment == theirs.deployment and mine.identity.dev == theirs.identity.dev


def _owed(snapshot: Snapshot, bind: Bind, reference: Reference) -> tuple[bool, str]:
    """Whether the cure is due unasked (DESIGN §7), and why or why not."""
    if bind.via:
        return False, f"noted only: it is seen by way of {bind.via}"
    if not snapshot.cni_directory_of(bind.host_path):
        return False, f"noted only: {bind.host_path} is no CNI configuration directory"
    if _was_replaced_in_place(snapshot, bind, reference):
        return False, "noted only: it was replaced in place, below a CNI directory that is the same: no switch"
    if not bind.writable:
        return False, "noted only: it is mounted read-only, so nothing that it writes is lost"
    return True, "what it writes there no longer reaches the host"

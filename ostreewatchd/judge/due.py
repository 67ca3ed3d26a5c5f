# SPDX-License-Identifier: Apache-2.0
"""Whether the cure of a stale bind is due unasked: only of a CNI configuration directory, or what is below it, that is
held by itself, and to be written."""

from __future__ import annotations

from ostreewatchd.model import Bind, Reference, Snapshot


def _was_replaced_in_place(snapshot: Snapshot, bind: Bind, reference: Reference) -> bool:
    """What lies below a CNI directory is no watched directory itself: only another tree makes it a leftover."""
    mine, theirs = bind.sight, reference.sight
    if bind.host_path in snapshot.cni_directories or mine.identity is None or theirs.identity is None:
        return False
    return mine.deployment == theirs.deployment and mine.identity.dev == theirs.identity.dev


def due(snapshot: Snapshot, bind: Bind, reference: Reference) -> tuple[bool, str]:
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

# SPDX-License-Identifier: Apache-2.0
"""Whether the host's directory was born after a container was started: all that is left to order the two where neither
unique mount ids nor the ledger's memory do.

A birth is a stamp of the wall clock of then, which may have been set since. When it was by CLOCK_BOOTTIME, which
nobody sets, depends on how far the two clocks were apart then. The earliest birth by any distance of this boot that is
known counts: who is older than that is older whichever it was.

And what is known of the birth without any stamp must agree: the directory was there when somebody was given it, or saw
it. Where no distance of the clocks that is known fits to that, the clock was set in a way that nobody knows, and there
is no order. Source: statx(2) (btime)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ostreewatchd.model import Container, Reference, Snapshot, Switch
from ostreewatchd.plan.clocks import apart

_APART = 1.0
"""Seconds. A start is known to a tick, in another clock than a birth, and a bind is made a little after its process:
closer than this is no order."""


def was_born_after(snapshot: Snapshot, container: Container, reference: Reference, switch: Optional[Switch]) -> bool:
    """Whether what `reference` is was made after the container was started; False also where that cannot be told.
    `switch`: the live one."""
    stamp = reference.sight.born_at
    if stamp is None:
        return False
    born = min(stamp - ahead for ahead in apart(snapshot))
    there = min(_was_there(snapshot, reference, switch), default=born)
    if born > snapshot.taken_boottime or born > there + _APART:
        return False
    return container.started_boottime + _APART < born


def _was_there(snapshot: Snapshot, reference: Reference, switch: Optional[Switch]) -> Iterator[float]:
    """Moments of CLOCK_BOOTTIME at which the directory was there already: when a container was started that has it as
    its bind, and when a remediation first saw the live state."""
    for container in snapshot.containers:
        for bind in container.binds:
            given = not bind.via and not bind.propagated
            if given and bind.host_path == reference.host_path and bind.sight.identity == reference.sight.identity:
                yield container.started_boottime
    known = switch is not None and switch.boot_id == snapshot.node.boot_id and switch.seen_boottime
    if switch is not None and known and reference.host_path in snapshot.cni_directories:
        yield switch.seen_boottime

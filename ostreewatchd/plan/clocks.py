# SPDX-License-Identifier: Apache-2.0
"""How far the wall clock is ahead of CLOCK_BOOTTIME, which nobody sets: now, and whenever in this boot somebody wrote
down both. Where these differ the wall clock was set in between. Source: clock_getres(2)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.model import Snapshot


def apart(snapshot: Snapshot) -> Iterator[float]:
    """Seconds: first now; then when each running container was made (the runtime's stamp, against the kernel's of its
    process), and when the ledger saw a switch or began an act."""
    yield snapshot.taken_at - snapshot.taken_boottime
    made = {one.id: one.created_at for one in (snapshot.runtime.containers if snapshot.runtime else ())}
    for container in snapshot.containers:
        created_at = made.get(container.id)
        if created_at is not None:
            yield created_at - container.started_boottime
    history, boot = snapshot.history, snapshot.node.boot_id
    for switch in (history.switch, history.before):
        if switch is not None and switch.boot_id == boot and switch.seen_boottime:
            yield switch.seen_at - switch.seen_boottime
    for act in history.acts:
        if act.boot_id == boot and act.intent_boottime:
            yield act.intent_at - act.intent_boottime

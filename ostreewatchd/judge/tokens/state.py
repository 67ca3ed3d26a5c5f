# SPDX-License-Identifier: Apache-2.0
"""What is the matter with a credential that the host has: one thing at a time, the gravest.

What is expired an API server refuses; what is not expired it may refuse all the same (its key was rotated, its account
was made anew), so nothing here ever says that a token is good.

Sources: kubernetes pkg/serviceaccount/claims.go (a leeway of a minute; a token is refused when its pod is gone);
projectcalico/calico#9235 (a clock that was set forward)."""

from __future__ import annotations

from typing import Literal

from ostreewatchd.model import Credential, Snapshot
from ostreewatchd.platforms.writers import HOUR, named

State = Literal["", "unreadable", "orphaned", "expired", "expiring", "late"]

LEEWAY = 60.0
_LAST_PART, _LAST_DAYS = 0.05, 7 * 24 * HOUR
"""Of its time, and at most: when nobody has renewed it by then, nobody will. A healthy kubelet renews at 80 %, and
takes some minutes until the writer has copied that."""
_SLACK_PART, _SLACK = 0.125, 300.0
"""Of the time until a renewal is due, and at least (seconds): what failed once is tried again."""
_PATIENCE = 25 * HOUR
"""Seconds, at most. After the clock was set forward a token that seems to be over may not be, until its writer has had
the time to renew it, by a clock that nobody sets (Calico: up to 12 h)."""


def state_of(snapshot: Snapshot, one: Credential) -> State:
    """Of a credential of the host's; nothing for one that a container has to itself."""
    if one.container_id:
        return ""
    if one.problem:
        return "unreadable"
    if one.pod_is_here is False:
        return "orphaned"
    if one.expires_at is None:
        return ""
    now = snapshot.taken_at - _ahead(snapshot, one)
    if one.expires_at + LEEWAY < now:
        return "expired"
    if last_part(one) < now:
        return "expiring"
    return "late" if renewal_due(one) < now else ""


def last_part(one: Credential) -> float:
    """When the rest of its time is so short that nobody will renew it any more."""
    end = one.expires_at or 0.0
    return end - min((end - (one.issued_at or end)) * _LAST_PART, _LAST_DAYS)


def renewal_due(one: Credential) -> float:
    """When its writer should have renewed it at the latest, and a while for what went wrong once. A credential whose
    writer is not known has no such time. Its end, where it has no beginning."""
    writer, end = named(one.writer), one.expires_at or 0.0
    if writer is None or one.issued_at is None:
        return end
    asked_for = (one.warn_after or end) - one.issued_at
    due = min(asked_for * writer.due, writer.due_at_most)
    return one.issued_at + due + max(due * _SLACK_PART, _SLACK)


def _ahead(snapshot: Snapshot, one: Credential) -> float:
    """Seconds by which this node's clock may be ahead of the API server's, whose dates a token has. That it was set
    forward may have been a mistake or the correction of one: what was written since then tells, and until then
    nothing does."""
    lately = in_all = 0.0
    patience = min(renewal_due(one) - (one.issued_at or 0.0), _PATIENCE)
    for step in snapshot.clock_steps:
        in_all += step.by
        if snapshot.taken_boottime - step.boottime < patience:
            lately += step.by
    age_when_written = one.modified_at - (one.issued_at or 0.0)
    return max(0.0, lately, in_all if age_when_written >= in_all - _SLACK else 0.0)

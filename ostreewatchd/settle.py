# SPDX-License-Identifier: Apache-2.0
"""When the host is quiet enough to be looked at and acted on. Pure: the caller brings the time.

A switch is several mounts one after the other; between them `/usr` is new and `/etc` old."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Optional, Union

from ostreewatchd.model import Flag, Snapshot


class Quiet(NamedTuple):
    """Nothing is under way."""


class Wait(NamedTuple):
    """Look again at `until` (the caller's clock); `why` is for STATUS=."""

    until: float
    why: str


class Overdue(NamedTuple):
    """Waiting has lasted longer than the cap: a report with its age, and still nothing may be done."""

    age: float
    why: str


Answer = Union[Quiet, Wait, Overdue]


class Unrest(NamedTuple):
    """Since when there is something to wait for, and when it moved last; both on a monotonic clock."""

    since: float
    moved: float


_FLAG_IS_YOUNG = 30.0
_FLAG_POLL_YOUNG, _FLAG_POLL_OLD = 0.2, 2.0
"""Seconds between looks at a flag file: its removal wakes nobody, and soon after a switch each second counts."""


def moved(unrest: Optional[Unrest], now: float) -> Unrest:
    """A mount was made or unmade at `now`."""
    return Unrest(since=unrest.since if unrest else now, moved=now)


def settled(
    unrest: Optional[Unrest], now: float, flags: Iterable[Flag], *, quiet: float, cap: float, complete: bool
) -> Answer:
    """Quiet, Wait or Overdue. `complete`: /usr and /etc are of one deployment."""
    if unrest is not None and now - unrest.moved < quiet and now - unrest.since < cap:
        return Wait(until=unrest.moved + quiet, why="mounts are still being made")
    reason = in_progress(flags, complete=complete, cap=cap)
    if reason is None:
        return Quiet()
    since = unrest.since if unrest else now
    if now - since >= cap:
        return Overdue(age=now - since, why=reason)
    return Wait(until=now + (_FLAG_POLL_YOUNG if now - since < _FLAG_IS_YOUNG else _FLAG_POLL_OLD), why=reason)


def in_progress(flags: Iterable[Flag], *, complete: bool, cap: float) -> Optional[str]:
    """Why a switch counts as under way; None if it does not. A flag that says "mounting" always blocks, one
    that says only "my script is still to run" no longer than the cap, and not while mounts are complete after
    that."""
    for flag in flags:
        if flag.always:
            return f"{flag.path}: {flag.means}"
        if flag.age < cap or not complete:
            return f"{flag.path}: {flag.means}"
    return None


def complete(snapshot: Snapshot) -> bool:
    """Whether `/usr` and `/etc` are of one deployment, as far as their mounts tell."""
    return not snapshot.live.partial

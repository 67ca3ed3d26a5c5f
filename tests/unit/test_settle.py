# SPDX-License-Identifier: Apache-2.0
"""When the host is quiet (DESIGN §6): the table of settle."""

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostreewatchd.model import Flag
from ostreewatchd.settle import Answer, Overdue, Quiet, Unrest, Wait, complete, in_progress, moved, settled
from tests.unit.worlds import stale

QUIET, CAP = 0.3, 600.0


def flag(*, always: bool, age: float) -> Flag:
    return Flag(path="/run/x", means="under way", always=always, age=age)


MOUNTING, YOUNG, OLD = flag(always=True, age=9e9), flag(always=False, age=599), flag(always=False, age=600)


def verdict(unrest: Optional[Unrest], now: float, *flags: Flag, whole: bool = True) -> Answer:
    return settled(unrest, now, flags, quiet=QUIET, cap=CAP, complete=whole)


@pytest.mark.parametrize(
    ("unrest", "now", "flags", "whole", "expected"),
    [
        # nothing moves
        (None, 1000.0, (), True, Quiet),
        (Unrest(999.0, 999.0), 1000.0, (), True, Quiet),
        (Unrest(999.0, 999.6), 1000.0, (), True, Quiet),
        # mounts move
        (Unrest(999.0, 999.8), 1000.0, (), True, Wait),
        (Unrest(1000.0, 1000.0), 1000.0, (), True, Wait),
        # ... and do not end: the cap makes it a look all the same, for the host is no more torn than at any time
        (Unrest(399.0, 999.9), 1000.0, (), True, Quiet),
        # flags
        (None, 1000.0, (MOUNTING,), True, Wait),
        (Unrest(399.0, 399.0), 1000.0, (MOUNTING,), True, Overdue),
        (None, 1000.0, (YOUNG,), True, Wait),
        (None, 1000.0, (OLD,), True, Quiet),
        (None, 1000.0, (OLD,), False, Wait),
        (Unrest(399.0, 399.0), 1000.0, (OLD,), False, Overdue),
        (None, 1000.0, (OLD, YOUNG), True, Wait),
        (Unrest(399.0, 399.0), 1000.0, (YOUNG,), True, Overdue),
        # /usr of one deployment and /etc of another, and nobody says that anything is under way
        (None, 1000.0, (), False, Quiet),
    ],
)
def test_the_table(
    unrest: Optional[Unrest], now: float, flags: tuple[Flag, ...], whole: bool, expected: type[Answer]
) -> None:
    assert isinstance(verdict(unrest, now, *flags, whole=whole), expected)


def test_each_mount_puts_quiet_off_but_not_the_beginning() -> None:
    unrest = moved(None, 10.0)
    unrest = moved(unrest, 10.2)
    assert unrest == Unrest(since=10.0, moved=10.2)
    assert verdict(unrest, 10.4) == Wait(until=10.5, why="mounts are still being made")
    assert verdict(unrest, 10.5) == Quiet()


def test_a_flag_is_looked_at_often_while_it_is_young() -> None:
    young = verdict(Unrest(1000.0, 1000.0), 1010.0, MOUNTING)
    old = verdict(Unrest(1000.0, 1000.0), 1050.0, MOUNTING)
    assert isinstance(young, Wait) and isinstance(old, Wait)
    assert young.until - 1010.0 < old.until - 1050.0 <= 2.0
    assert "/run/x: under way" in young.why


def test_overdue_says_its_age() -> None:
    assert verdict(Unrest(100.0, 100.0), 800.0, MOUNTING) == Overdue(age=700.0, why="/run/x: under way")


@given(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(0, 1e4), st.booleans(), st.booleans(), st.floats(0, 1e4))
def test_waiting_ends(now: float, since: float, since_moved: float, always: bool, whole: bool, age: float) -> None:
    """Invariant 8: each wait lies in the future and within reach; once the cap is over there is no more waiting."""
    unrest = Unrest(since=now - max(since, since_moved), moved=now - since_moved)
    found = verdict(unrest, now, flag(always=always, age=age), whole=whole)
    if isinstance(found, Wait):
        assert now <= found.until <= now + 2.0
        assert now - unrest.since < CAP
    if always:
        assert not isinstance(found, Quiet), "a flag that says mounting always blocks"


def test_in_progress_names_the_first_reason() -> None:
    assert in_progress((), complete=False, cap=CAP) is None
    assert in_progress((OLD, MOUNTING), complete=True, cap=CAP) == "/run/x: under way"


def test_complete_is_what_the_mounts_tell() -> None:
    assert complete(stale().snapshot())
    assert not complete(stale().partial().snapshot())

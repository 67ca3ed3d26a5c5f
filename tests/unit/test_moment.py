# SPDX-License-Identifier: Apache-2.0
"""Whether a container was started before the switch: mount ids, the ledger's memory, and a birth by the wall clock."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.test_plan import refusal, step
from tests.unit.worlds import BOOTED_AT, CNI, NEW, NEW_NAME, OLD, OLD_NAME, UPTIME, World, world


def started(mine: object, theirs: object, *, at: float, born: object, tree: str = OLD_NAME) -> World:
    sights = (
        msgspec.structs.replace(OLD, serial=mine),
        msgspec.structs.replace(
            NEW, deployment=tree, serial=theirs, born_at=None if born is None else BOOTED_AT + float(str(born))
        ),
    )
    return world().host(CNI, sights[1]).container("a", started=at).bind(CNI, sights[0])


@pytest.mark.parametrize(
    ("mine", "theirs", "at", "born"),
    [
        (500, 900, 1000, None),  # the host's mount is younger than the container's bind
        (500, 900, 1000, 10),  # a deployment made before the container started, mounted after it
        (900, 500, 1000, 2000),  # no mount at all: the directory was replaced after the start
        (None, None, 1000, 2000),  # a kernel without unique mount ids
        (None, 900, 1000, 2000),
    ],
)
def test_started_before_the_switch(mine: object, theirs: object, at: float, born: object) -> None:
    """DESIGN §7, invariant 6."""
    assert step(started(mine, theirs, at=at, born=born))


@pytest.mark.parametrize(
    ("mine", "theirs", "at", "born", "because"),
    [
        (900, 500, 1000, None, "(id 900) is younger than the host's (id 500)"),
        (900, 500, 3000, 2000, "younger"),
        (900, 900, 3000, 2000, "younger"),
        (None, None, 3000, 2000, "cannot be told"),
        (None, None, 1000, None, "cannot be told"),
        (500, None, 3000, 2000, "cannot be told"),
        (None, None, 2000, 2000, "cannot be told"),
        (None, None, 2000, 2000.5, "cannot be told"),  # closer than clocks can tell
        (900, 500, 2000, 2000.5, "younger"),
    ],
)
def test_started_after_the_switch_is_an_alarm_and_no_restart(
    mine: object, theirs: object, at: float, born: object, because: str
) -> None:
    """Invariant 6: with no memory at all, a container that started after the switch is never restarted."""
    one = refusal(started(mine, theirs, at=at, born=born))
    assert one.name == "started-after-switch" and one.alarm and because in one.because


def test_a_wall_clock_that_was_set_back_orders_nothing() -> None:
    """Invariant 6, calico#9235: a directory that is born in the future says that the clock was set back."""
    assert refusal(started(None, None, at=1000, born=UPTIME + 1)).name == "started-after-switch"
    # The container's mount is younger than the host's, and of another tree: only the clock says otherwise.
    assert refusal(started(900, 500, at=1000, born=2000, tree=NEW_NAME)).name == "started-after-switch"
    assert step(started(None, 500, at=1000, born=2000, tree=NEW_NAME))


def test_a_ledger_that_does_not_say_when_the_switch_was_seen_orders_nothing() -> None:
    """An older version wrote it: the moment is 0, and everything was started after that."""
    known = started(None, None, at=1000, born=2000).before().switch("s1", seen=0.0)
    assert step(known)

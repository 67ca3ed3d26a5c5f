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


# --- no mount ids, no memory, and a wall clock that was set ----------------------------------------------------------


def set_back(*, started: float, by: float, wall: float, born: float = 2000.0) -> World:
    """The host's directory is born at `born`; then the wall clock is set back by `by`. The container was started
    at `started`, when the clock still had to be set back by `wall`. Seconds since boot."""
    sight = msgspec.structs.replace(NEW, serial=None, born_at=BOOTED_AT + born + by)
    old = msgspec.structs.replace(OLD, serial=None)
    return world().host(CNI, sight).container("a", started=started, wall=wall).bind(CNI, old)


@pytest.mark.parametrize("born", [2000.0, UPTIME - 10])
def test_who_was_made_before_the_clock_was_set_back_tells_when_the_directory_was_born(born: float) -> None:
    """The runtime's stamp of its making is as wrong as the birth's: together they are right, also while the clock is
    not yet past the birth again."""
    assert step(set_back(started=1000, by=30, wall=30, born=born))
    assert refusal(set_back(started=born + 10, by=60, wall=60, born=born)).name == "started-after-switch"


def test_another_container_tells_it_too() -> None:
    """Invariant 6. By the clock of now the container is 20 s older than the directory, and it is 10 s younger."""
    fooled = set_back(started=2010, by=30, wall=0)
    assert step(fooled)
    assert refusal(fooled.container("older", started=500, wall=30)).name == "started-after-switch"


def test_who_has_the_directory_already_tells_that_it_was_there() -> None:
    """Invariant 6. Nobody is left of the time before the clock was set back; but what shows the new directory was
    given it."""
    fooled = set_back(started=2010, by=30, wall=0)
    given = msgspec.structs.replace(NEW, serial=None)
    later = set_back(started=2010, by=30, wall=0).container("b", started=2020).bind(CNI, given)
    assert refusal(later).name == "started-after-switch"
    sees_all = fooled.container("b", started=500).bind(CNI, given, propagated=True)
    assert step(sees_all)  # It was not given it: it sees what the host mounts.


def test_a_ledger_that_saw_the_switch_tells_that_it_was_there() -> None:
    """Invariant 6. The ledger knew no state before; that it saw this one it knows."""
    assert refusal(set_back(started=2010, by=30, wall=0).switch(seen=2015)).name == "started-after-switch"
    assert refusal(set_back(started=2010, by=0, wall=0).switch(seen=2005)).name == "started-after-switch"
    assert step(set_back(started=1000, by=0, wall=0).switch(seen=2005))
    # What it wrote before the clock was set tells how far the clocks were apart.
    known = set_back(started=1000, by=3600, wall=0, born=2000).switch(seen=2005)
    assert refusal(known).name == "started-after-switch"
    saw = known.snapshot().history.switch
    assert saw is not None
    assert step(known.history(switch=msgspec.structs.replace(saw, seen_at=saw.seen_at + 3600)))


def test_a_clock_that_was_set_forward_orders_only_what_is_older_either_way() -> None:
    assert step(set_back(started=1000, by=-30, wall=-30, born=2000))
    assert refusal(set_back(started=1980, by=-30, wall=-30, born=2000)).name == "started-after-switch"

# SPDX-License-Identifier: Apache-2.0
"""Lives that are cut at every moment which a traced run of them has."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.sim.events import DO, Event, History
from tests.sim.node import Node
from tests.sim.replay import replay

PATCH = Event(at=1.0, do="install", how="none", value=0.1)
LATER = Event(at=9.0, do="hears", how="on")
"""Nothing happens, but the history lasts until then."""


def _returning(how: str) -> History:
    """Calico comes back like this."""
    return History(events=(Event(at=0.0, do="returns", who="calico-node", how=how), PATCH, LATER), proof=2.0)


LIVES = {
    "cured": History(events=(PATCH, LATER)),
    "no ledger before": History(events=(PATCH, LATER), knew_before=False),
    "no mount ids": History(events=(PATCH, LATER), serials=False),
    "slow": History(events=(Event(at=0.0, do="slow", who="calico-node", value=3.0), PATCH, LATER)),
    "stale again": _returning("stale"),
    "never again": _returning("never"),
    "pod deleted": History(
        events=(Event(at=0.0, do="returns", who="calico-node", how="pod-deleted"), PATCH, LATER), proof=2.0
    ),
    "with the script": History(events=(Event(at=1.0, do="install", how="after", value=0.4), LATER)),
    # The sandbox's shim was left behind before the switch: a container stop would not help.
    "sandbox": History(events=(Event(at=0.0, do="shim", who="calico-node"), PATCH, LATER)),
    # It is left behind when the container has been stopped: the larger cure follows the smaller one's failed proof.
    "ladder": History(
        events=(
            PATCH,
            Event(at=1.0, do="shim", on="after:intend", who="calico-node", how="booted"),
            LATER,
        ),
        proof=2.0,
    ),
    "kubelet restarted": History(
        events=(PATCH, Event(at=1.2, do="kubelet", on="after:stop", how="restart"), LATER), proof=2.0
    ),
    "paused and resumed": History(
        events=(PATCH, Event(at=1.0, do="pause", on="after:intend", value=900.0), Event(at=5.0, do="resume"), LATER)
    ),
    "restarted meanwhile": History(
        events=(PATCH, Event(at=1.0, do="exits", on="after:intend", who="calico-node"), LATER)
    ),
    "ledger garbled": History(events=(Event(at=0.5, do="ledger", how="garbled"), PATCH, LATER)),
    "two switches": History(events=(PATCH, Event(at=2.9, do="replace-directory"), LATER)),
}
CUTS = ("kill", "power-cut", "kill and the ledger is lost")


class At:
    """Does something at the n-th moment of a life, once."""

    def __init__(self, moment: int, what: str) -> None:
        self._moment, self._what = moment, what
        self.name = ""
        """Which moment that was; empty: it never came."""

    def __call__(self, node: Node) -> None:
        def on_moment(name: str) -> None:
            if node.moments == self._moment:
                self.name = name
                if self._what == "kill and the ledger is lost":
                    node.timeline.call_later(0.001, lambda: DO["ledger"](node, Event(at=0.0, do="", how="lost")))
                DO[self._what.split()[0]](node, Event(at=0.0, do=""))

        node.on_moment = on_moment


class Moment(NamedTuple):
    """One of a traced life."""

    name: str
    state: tuple[object, ...]
    """The time, and how often the world and the disk have changed: what a cut leaves behind is the same where that is
    the same."""


def traced(life: History, place: Path) -> list[Moment]:
    """The moments of a life in which nothing is cut, up to where the world holds still."""
    found: list[Moment] = []

    def trace(node: Node) -> None:
        def on_moment(name: str) -> None:
            state = (node.timeline.now, node.eyes.version, node.disk.version, len(node.processes), node.wanted)
            found.append(Moment(name, state))

        node.on_moment = on_moment

    replay(life, place, [trace])
    return found


def traced_to_the_end(life: History, place: Path) -> Node:
    """Lived through, with each of its moments in `trace`."""

    def trace(node: Node) -> None:
        node.tracing = True

    return replay(life, place, [trace])


def cut_everywhere(name: str, cut: str, place: Path) -> int:
    """One life after the other, each cut at another moment; how many. Raises Broken."""
    moments, lives = traced(LIVES[name], place), 0
    for number, moment in enumerate(moments, 1):
        if _is_the_one_before(moments, number) or _is_one_of_many(moments, number):
            continue
        at = At(number, cut)
        replay(LIVES[name], place, [at])
        if at.name != moment.name:
            raise LookupError(f"a life is the same up to the cut: {number} was {at.name} instead of {moment.name}")
        lives += 1
    return lives


def _is_the_one_before(moments: list[Moment], number: int) -> bool:
    """After one call and before the next one is the same moment, if nothing is between."""
    return number > 1 and moments[number - 2].state == moments[number - 1].state


def _is_one_of_many(moments: list[Moment], number: int) -> bool:
    """While it waits for a proof one look is like the other: of a row of them only the first two are cut."""
    waiting = ("look:shallow", "look:middle", "looked:shallow", "slept")
    return number > 12 and all(one.name in waiting for one in moments[number - 10 : number + 1])

# SPDX-License-Identifier: Apache-2.0
"""Killed, or the power cut, before and after every durable write and every external call: the moments are those of a
traced run, and no write and no call is without one."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from ostreewatchd.remediation.world import World
from tests.sim.disk import change_counter
from tests.sim.events import DO, Event, History
from tests.sim.generate import MOMENTS, history
from tests.sim.node import Hands, Node
from tests.sim.replay import folder, replay
from tests.unit.sources import modules

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


def traced(life: History, place: Path) -> list[str]:
    """The moments of a life in which nothing is cut, up to where the world holds still."""
    names: list[str] = []

    def trace(node: Node) -> None:
        node.on_moment = names.append

    replay(life, place, [trace])
    return names


def traced_to_the_end(life: History, place: Path) -> list[str]:
    def trace(node: Node) -> None:
        node.tracing = True

    return replay(life, place, [trace]).trace


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", LIVES)
def test_a_cut_at_every_moment(name: str, cut: str) -> None:
    """Invariants 6, 7 and 12: nothing is stopped twice, every act has an outcome, and in the end all is cured or
    refused by name."""
    with folder() as place:
        moments = traced(LIVES[name], place)
        for number, expected in enumerate(moments, 1):
            if _is_one_of_many(moments, number):
                continue
            at = At(number, cut)
            replay(LIVES[name], place, [at])
            assert at.name == expected, "a life is the same up to the cut"
    assert {"before:intend", "within:intend", "after:intend", "before:stop", "after:stop"} <= set(moments)


def _is_one_of_many(moments: list[str], number: int) -> bool:
    """While it waits for a proof one look is like the other: of a row of them only the first two are cut."""
    waiting = ("look:shallow", "look:middle", "looked:shallow", "slept")
    return number > 12 and all(name in waiting for name in moments[number - 10 : number + 1])


# --- that the list is complete ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LIVES)
def test_every_durable_write_has_its_moments(name: str) -> None:
    """SQLite counts its transactions in the file itself: as many were announced, and as many were told."""
    life = msgspec.structs.replace(LIVES[name], knew_before=False)
    with folder() as place:
        seen = Counter(moment.split(":")[0] for moment in _writes(traced_to_the_end(life, place)))
        assert seen["after"] == change_counter(str(place / "ledger.db")) > 8
    assert seen["before"] >= seen["after"] >= seen["within"] > 2


def _writes(moments: list[str]) -> list[str]:
    calls = ("before:stop", "after:stop", "before:ask", "after:ask")
    return [name for name in moments if name.split(":")[0] in ("before", "within", "after") and name not in calls]


def test_every_verb_of_the_world_has_its_moments() -> None:
    """What a remediation can do to the world is in one protocol; each verb but the clock is a moment."""
    verbs = {name for name, _ in inspect.getmembers(World, inspect.isfunction) if not name.startswith("_")}
    assert verbs <= {name for name, _ in inspect.getmembers(Hands, inspect.isfunction)}
    for verb in verbs - {"monotonic"}:
        assert "node.moment(" in inspect.getsource(getattr(Hands, verb)), verb


def test_a_remediation_reaches_the_world_by_that_protocol_alone() -> None:
    """No other module of it imports what acts, looks or talks."""
    wrong = []
    for module in modules():
        if not module.name.startswith("ostreewatchd.remediation.") or module.name.endswith((".world", ".program")):
            continue
        for node in ast.walk(module.tree):
            name = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if name.startswith(("ostreewatchd.act", "ostreewatchd.observe", "ostreewatchd.peers")):
                wrong += [f"{module.where}: {name}"] if not name.endswith(".errors") else []
    assert not wrong, wrong


def test_nothing_writes_to_the_ledger_outside_its_transaction() -> None:
    """SQL that changes something stands within `with self._written()`, or makes the tables."""
    wrong = []
    for module in modules():
        if not f"{module.name}.".startswith("ostreewatchd.ledger."):
            continue
        inside = {id(one) for block in _transactions(module.tree) for one in ast.walk(block)}
        for node in ast.walk(module.tree):
            sql = _sql(node)
            if sql.startswith(("INSERT", "UPDATE", "DELETE", "REPLACE", "DROP")) and id(node) not in inside:
                wrong.append(f"{module.where}:{node.lineno}: {sql[:40]}")  # type: ignore[attr-defined]
    assert not wrong, wrong


def _transactions(tree: ast.AST) -> list[ast.With]:
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and any("_written()" in ast.unparse(item) for item in node.items)
    ]


def _sql(node: ast.AST) -> str:
    """The text that a call hands to SQLite."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return ""
    if node.func.attr not in ("execute", "executemany", "executescript") or not node.args:
        return ""
    first = node.args[0]
    if isinstance(first, ast.JoinedStr):
        first = first.values[0]
    return str(first.value) if isinstance(first, ast.Constant) else ""


def test_random_events_are_put_at_the_moments_that_there_are() -> None:
    seen: set[str] = set()
    with folder() as place:
        for seed in range(150):
            seen |= set(traced_to_the_end(history(seed), place))
    assert seen == set(MOMENTS)

# SPDX-License-Identifier: Apache-2.0
"""Killed, or the power cut, before and after every durable write and every external call: the moments are those of a
traced run, and no write and no call is without one."""

from __future__ import annotations

import ast
import inspect
from collections import Counter
from typing import get_args, get_type_hints

import msgspec
import pytest

from ostreewatchd.model import Step
from ostreewatchd.remediation.world import World
from tests.sim.cuts import CUTS, LIVES, traced, traced_to_the_end
from tests.sim.disk import OF_RUNS, change_counter
from tests.sim.generate import MOMENTS, history
from tests.sim.jobs import JOBS, json_lines
from tests.sim.node import Hands
from tests.sim.replay import folder
from tests.unit.sources import modules

# The simulated node's units have no files that they could be behind: what restarts one is cut at each of these verbs
# in tests/unit/test_unit_cure.py.
OF_UNITS = {"restart-unit", "reload-unit"}
VERBS_OF_UNITS = {"run_unit", "sample"}


@pytest.fixture(scope="module")
def lives() -> dict[str, int]:
    """How often each life was cut in each way without harm."""
    shares = [list(LIVES)[job::JOBS] for job in range(JOBS)]
    return json_lines([["cuts", *names] for names in shares])


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", LIVES)
def test_a_cut_at_every_moment(name: str, cut: str, lives: dict[str, int]) -> None:
    """Invariants 6, 7 and 12: nothing is stopped twice, every act has an outcome, and in the end all is cured or
    refused by name."""
    assert lives[f"{name}: {cut}"] > 30


def test_a_life_has_the_moments_around_each_act() -> None:
    with folder() as place:
        moments = {one.name for one in traced(LIVES["cured"], place)}
    assert {"before:intend", "within:intend", "after:intend", "before:stop", "after:stop"} <= moments


def test_the_lives_have_all_that_is_done_and_what_may_come_of_it() -> None:
    """Each rung of the ladder, and each outcome that an act can have where nothing is cut; and each moment that a
    remediation has."""
    steps, outcomes, moments = set(), set(), set()
    with folder() as place:
        for life in LIVES.values():
            node = traced_to_the_end(life, place)
            moments |= set(node.trace)
            steps |= {act.step for act in node.truth.acts.values()}
            outcomes |= {act.outcome for act in node.truth.acts.values()}
    assert steps == set(get_args(get_type_hints(Step)["kind"])) - OF_UNITS
    assert outcomes >= {"cured", "not-cured", "not-needed", "not-done", "pod-gone", "superseded"}
    assert moments == set(MOMENTS)


# --- that the list is complete ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in LIVES if name != "ledger garbled"])
def test_every_durable_write_has_its_moments(name: str) -> None:
    """SQLite counts its transactions in the file itself: as many were announced, and as many were told.
    (A ledger that is set aside has its own count with it.)"""
    life = msgspec.structs.replace(LIVES[name], knew_before=False)
    with folder() as place:
        seen = Counter(moment.split(":")[0] for moment in _writes(traced_to_the_end(life, place).trace))
        assert seen["after"] == change_counter(str(place / "ledger.db")) > 8
    assert seen["before"] >= seen["after"] >= seen["within"] > 2


def _writes(moments: list[str]) -> list[str]:
    calls = ("before:stop", "after:stop", "before:ask", "after:ask")
    return [name for name in moments if name.split(":")[0] in ("before", "within", "after") and name not in calls]


def test_every_verb_of_the_world_has_its_moments() -> None:
    """What a remediation can do to the world is in one protocol; each verb but the clock is a moment."""
    verbs = {name for name, _ in inspect.getmembers(World, inspect.isfunction) if not name.startswith("_")}
    assert verbs - VERBS_OF_UNITS <= {name for name, _ in inspect.getmembers(Hands, inspect.isfunction)}
    for verb in verbs - VERBS_OF_UNITS - {"monotonic"}:
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


def test_what_is_known_of_runs_is_apart_from_what_is_known_of_acts() -> None:
    """The simulated disk reads acts and switches anew only when another function has written."""
    found: dict[str, set[str]] = {}
    for module in modules():
        for function in ast.walk(module.tree):
            if isinstance(function, ast.FunctionDef) and function.name in OF_RUNS:
                found[function.name] = {_table(sql) for sql in map(_sql, ast.walk(function)) if sql}
    assert set(found) == set(OF_RUNS)
    for name, tables in found.items():
        assert tables and tables <= {"run", "refusal"}, (name, tables)


def _table(sql: str) -> str:
    words = sql.split()
    before = next(word for word in ("UPDATE", "FROM", "INTO") if word in words)
    return words[words.index(before) + 1]


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
            seen |= set(traced_to_the_end(history(seed), place).trace)
    assert seen == set(MOMENTS)

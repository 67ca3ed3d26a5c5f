# SPDX-License-Identifier: Apache-2.0
"""Others at work on the same node, and ways back: nobody's container is stopped once too often, none is left stale
without a word."""

from __future__ import annotations

import contextlib
import itertools
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ostreewatchd.ledger import Ledger, read, rows
from ostreewatchd.model import Exit
from tests.fakes.world import Crash, CrashAt, Node, Subject, quiet
from tests.unit.test_exactly_once import Runs, at_most_once, folder  # noqa: F401
from tests.unit.worlds import names


class Other:
    """Does something at some of the moments at which the node is looked at or changed."""

    def __init__(self, act: Callable[[], None], *moments: int) -> None:
        self._act, self._moments, self.count = act, moments, 0

    def __call__(self, _: str) -> None:
        self.count += 1
        if self.count in self._moments:
            self._act()


def healing(runs: Runs) -> None:
    """Until nothing is owed, as the watcher would ask; soon."""
    for _ in range(3):
        if runs.once().status == Exit.NOTHING_OWED:
            return
    raise AssertionError(runs.outcomes())


def switched() -> Node:
    node = Node([Subject("calico-node"), Subject("kube-multus")])
    node.switch()
    return node


@pytest.mark.parametrize("times", [1, 2])
def test_the_distributions_script_restarts_them_too(times: int, folder: Path) -> None:  # noqa: F811
    """Before, during, after, or twice: `crictl stop` by starlingx/update's post-install script."""
    for moment in itertools.count(1):
        node = switched()
        moments = (moment, moment + 2)[:times]
        node.hook = other = Other(lambda node=node: node.restart("calico-node"), *moments)  # type: ignore[misc]
        runs = Runs(node, folder, moment)
        healing(runs)
        at_most_once(node)
        assert all(subject.shows == 1 and subject.runs for subject in node.subjects), moment
        assert "not-cured" not in runs.outcomes(), (moment, runs.outcomes())
        if other.count < moment:
            break
    assert moment > 10


def test_somebody_deletes_the_pod(folder: Path) -> None:  # noqa: F811
    """`kubectl delete`: its container will never be there again, and the others are still due."""
    for moment in itertools.count(1):
        node = switched()
        calico = node.subjects[0]

        def delete(calico: Subject = calico) -> None:
            calico.runs, calico.starts_at, calico.pod_exists = False, None, False

        node.hook = other = Other(delete, moment)
        runs = Runs(node, folder, moment)
        healing(runs)
        at_most_once(node)
        assert node.subjects[1].shows == 1 and "not-cured" not in runs.outcomes(), (moment, runs.outcomes())
        if other.count < moment:
            break
    assert moment > 10


def test_back_to_the_tree_before(folder: Path) -> None:  # noqa: F811
    """A, B, and B unmounted again: a switch of its own, also where what is there is what was there at first."""
    node = Node([Subject("calico-node"), Subject("kube-multus")])
    runs = Runs(node, folder)
    assert runs.once().status == Exit.NOTHING_OWED, "a boot's first state is recorded"
    for step, generation in ((node.switch, 1), (node.roll_back, 0), (node.switch, 1)):
        before = dict(node.stops)
        step()
        healing(runs)
        assert all(subject.shows == generation for subject in node.subjects)
        assert sum(node.stops.values()) == sum(before.values()) + 2, "each of them once more"
    assert len({act.switch_id for act in read(runs.path).acts}) == 3


def test_back_after_a_tree_without_this_product(folder: Path) -> None:  # noqa: F811
    """Nobody has recorded B, and A is known by what is mounted: it is A's switch still. What A's switch restarted once
    is not restarted again, but said, loudly."""
    node = Node([Subject("calico-node")])
    node.switch()
    runs = Runs(node, folder)
    healing(runs)
    node.switch()
    node.restart("calico-node")
    node.roll_back()
    result = runs.once()
    assert result.status == Exit.OWED and names(result.plan.refusals) == ["already-restarted"]
    assert result.plan.refusals[0].alarm and sum(node.stops.values()) == 1


def test_power_is_cut_and_the_host_boots_again(folder: Path) -> None:  # noqa: F811
    """Whatever was under way: after the boot all is fresh, nothing is stopped, and no act stays open."""
    for moment in itertools.count(1):
        node = switched()
        node.hook = hook = CrashAt(moment)
        runs = Runs(node, folder, moment)
        with contextlib.suppress(Crash):
            runs.once()
        before, node.hook = node.stops.copy(), quiet
        node.reboot()
        assert runs.once().status == Exit.NOTHING_OWED
        assert node.stops == before and "" not in runs.outcomes(), (moment, hook.at)
        node.switch()
        healing(runs)
        assert sum(node.stops.values()) == sum(before.values()) + 2
        if not hook.at:
            break
    assert moment > 10


@pytest.fixture
def cured(folder: Path) -> Iterator[Runs]:  # noqa: F811
    """A switch of which the first subject is done, and of which the second came back with the old directory since."""
    node = switched()
    runs = Runs(node, folder)
    healing(runs)
    node.subjects[0].shows = 0
    yield runs


def test_an_older_version_with_a_newer_ones_ledger(cured: Runs) -> None:
    """B was newer, and its words for what it did are not known here: it counts as done."""
    db = sqlite3.connect(cured.path)
    db.execute("UPDATE act SET step = 'evict-pod', outcome = 'half-cured' WHERE id = 1")
    db.execute(f"PRAGMA user_version = {rows.VERSION + 1}")
    db.commit()
    db.close()
    result = cured.once()
    assert result.status == Exit.OWED and names(result.plan.refusals) == ["already-restarted"]
    assert sum(cured.node.stops.values()) == 2 and not list(Path(cured.path).parent.glob("*.corrupt-*"))


def test_the_package_is_upgraded_during_a_remediation(folder: Path) -> None:  # noqa: F811
    """The older version has intended and stopped; the newer one opens the same file, and takes the act up."""
    node = switched()
    runs = Runs(node, folder)
    # What version 1 had of these tables, with an act of it.
    db = sqlite3.connect(runs.path, isolation_level=None)
    db.execute("CREATE TABLE switch (id TEXT PRIMARY KEY, number INTEGER NOT NULL DEFAULT 0, fingerprint TEXT NOT NULL"
               " DEFAULT '', boot_id TEXT NOT NULL DEFAULT '', deployment TEXT NOT NULL DEFAULT '', seen_at REAL NOT"
               " NULL DEFAULT 0, seen_boottime REAL NOT NULL DEFAULT 0)")  # fmt: skip
    db.execute("CREATE TABLE act (id INTEGER PRIMARY KEY AUTOINCREMENT, switch_id TEXT NOT NULL DEFAULT '', step TEXT"
               " NOT NULL DEFAULT '', subject TEXT NOT NULL DEFAULT '{}', because TEXT NOT NULL DEFAULT '', intent_at"
               " REAL NOT NULL DEFAULT 0, outcome TEXT NOT NULL DEFAULT '', outcome_at REAL, proof TEXT NOT NULL"
               " DEFAULT '')")  # fmt: skip
    db.execute("PRAGMA user_version = 1")
    fingerprint = f"generation {node.generation}, boot 0"
    db.execute("INSERT INTO switch (id, number, fingerprint) VALUES ('s', 1, ?)", (fingerprint,))
    subject = node.look(read(runs.path), deep=False).containers[0]
    stored = rows.encode(
        {"namespace": "kube-system", "pod": subject.pod.name, "pod_uid": subject.pod.uid, "container": subject.name,
         "container_id": subject.id}
    )  # fmt: skip
    db.execute("INSERT INTO act (switch_id, step, subject) VALUES ('s', 'stop-container', ?)", (stored,))
    node._end(node.subjects[0])
    with Ledger(runs.path) as book:
        assert not book.set_aside
    db.execute("UPDATE act SET proof = 'written by the older one, late' WHERE id = 1")
    db.close()
    healing(runs)
    at_most_once(node)
    assert runs.outcomes() == ["cured", "cured"] and rows.VERSION > 1

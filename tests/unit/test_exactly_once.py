# SPDX-License-Identifier: Apache-2.0
"""Invariant 6: whatever crashes, and whenever, a switch stops a subject at most once; and then it is cured."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ostreewatchd.ledger import read
from ostreewatchd.model import Exit, Settings
from ostreewatchd.remediation import cure
from ostreewatchd.remediation.loop import Result, remediate
from ostreewatchd.report.journal import Journal
from tests.fakes.journald import FakeJournal
from tests.fakes.world import Crash, CrashAt, CrashingLedger, Node, Subject, quiet

MakeNode = Callable[[], Node]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where fsync costs nothing, if the machine has such a place: thousands of runs."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path) as name:
        yield Path(name)


class Runs:
    """Remediations of one node, each as a new process would: its own ledger connection."""

    def __init__(self, node: Node, folder: Path, number: int = 0) -> None:
        self.node = node
        self.path = str(folder / f"{number}.db")
        self._folder = folder

    def once(self) -> Result:
        with FakeJournal(self._folder / "journal") as fake:
            journal = Journal("test", fake.path)
            try:
                with CrashingLedger(self.path, self.node.hook) as ledger:
                    return remediate(self.node, ledger, journal, Settings(proof=30.0))
            finally:
                journal.close()
                os.unlink(fake.path)

    def until_it_ends(self, between: Callable[[], None] = lambda: None) -> Result:
        for _ in range(6):
            try:
                return self.once()
            except Crash:
                self.node.clock += 3.0
                between()
        raise AssertionError("it crashes for ever")

    def outcomes(self) -> list[str]:
        return [act.outcome for act in read(self.path).acts]


def two_writers(**calico: object) -> MakeNode:
    def make() -> Node:
        node = Node([Subject("calico-node", **calico), Subject("kube-multus")])  # type: ignore[arg-type]
        node.switch()
        return node

    return make


def at_most_once(node: Node) -> None:
    assert all(count == 1 for count in node.stops.values()), node.stops


MAKERS = {
    "fresh": two_writers(),
    "slow": two_writers(delay=12.0),
    "stale": two_writers(comes_back="stale"),
    "never": two_writers(comes_back="never"),
    "pod-deleted": two_writers(comes_back="pod-deleted"),
}


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_a_crash_at_any_moment(name: str, folder: Path) -> None:
    """Before and after each ledger write, each look and the stop; then the run after it ends the work."""
    seen: set[str] = set()
    for moment in itertools.count(1):
        node = MAKERS[name]()
        node.hook = hook = CrashAt(moment)
        runs = Runs(node, folder, moment)
        result = runs.until_it_ends()
        at_most_once(node)
        if name in ("fresh", "slow"):
            assert result.status == Exit.NOTHING_OWED, (moment, hook.at, result)
            assert dict(node.stops) == {(1, "calico-node"): 1, (1, "kube-multus"): 1}
        elif name == "pod-deleted":
            assert result.status == Exit.NOTHING_OWED and node.stops[1, "kube-multus"] == 1
        else:
            assert result.status in (Exit.NOT_CURED, Exit.OWED, Exit.NOTHING_OWED)
            assert node.stops[1, "calico-node"] == 1 and node.stops[1, "kube-multus"] == 0, "the breaker"
        assert "" not in runs.outcomes(), (moment, hook.at)
        before, node.hook = node.stops.copy(), quiet
        runs.once()
        assert node.stops == before, "a further run does nothing more"
        if not hook.at:
            break
        seen |= set(hook.at)
        if moment > 60 and name in ("never", "stale"):
            break  # One look after the other while it waits for the proof: all alike.
    assert {"before-intent", "after-intent", "before-stop", "after-stop", "look", "after-switch"} <= seen
    assert "before-outcome" in seen or name in ("never", "stale")


def test_two_crashes(folder: Path) -> None:
    number = 0
    for first in range(1, 20, 2):
        for second in range(first + 1, first + 12, 3):
            number += 1
            node = two_writers()()
            node.hook = CrashAt(first, second)
            result = Runs(node, folder, number).until_it_ends()
            assert result.status == Exit.NOTHING_OWED
            assert dict(node.stops) == {(1, "calico-node"): 1, (1, "kube-multus"): 1}, (first, second)


@pytest.mark.parametrize("comes_back", ["fresh", "stale"])
def test_a_crash_and_then_the_ledger_is_lost(comes_back: str, folder: Path) -> None:
    """With no memory at all: what started after the switch and is still stale is an alarm, never a restart."""
    for moment in range(1, 30):
        node = two_writers(comes_back=comes_back)()
        node.hook = CrashAt(moment)
        runs = Runs(node, folder, moment)

        def lose(path: str = runs.path) -> None:
            Path(path).unlink(missing_ok=True)

        runs.until_it_ends(between=lose)
        at_most_once(node)
        lose()
        result = runs.once()
        at_most_once(node)
        if comes_back == "stale" and node.stops[1, "calico-node"]:
            assert result.status == Exit.OWED
            assert "started-after-switch" in [one.name for one in result.plan.refusals]


def test_a_crash_and_then_another_switch(folder: Path) -> None:
    """The act of the old switch is abandoned, the new switch has its own; nothing waits for an old proof."""
    for moment in range(1, 30):
        node = two_writers()()
        node.hook = hook = CrashAt(moment)
        runs = Runs(node, folder, moment)

        def change(node: Node = node) -> None:
            node._kubelet()
            node.switch()

        result = runs.until_it_ends(between=change)
        at_most_once(node)
        assert result.status == Exit.NOTHING_OWED, (moment, hook.at, result)
        assert "not-cured" not in runs.outcomes(), (moment, hook.at, runs.outcomes())
        assert all(subject.shows == node.generation for subject in node.subjects)


@pytest.mark.parametrize("comes_back", ["fresh", "stale"])
def test_the_stop_of_a_killed_run_comes_between_two_looks_of_the_next(
    comes_back: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The act is the product's own, and counts: it gets its proof, and is not called needless."""
    monkeypatch.setattr(cure, "_may_still_come", lambda *_: True)  # The next run is there at once.
    node = two_writers(comes_back=comes_back)()
    looks = itertools.count(1)

    def killed(moment: str) -> None:
        if moment == "before-stop":
            raise Crash(moment)

    def late(moment: str) -> None:
        if moment == "look" and next(looks) == 2:
            node._end(node.subjects[0])

    runs = Runs(node, folder)
    node.hook = killed
    with pytest.raises(Crash):
        runs.once()
    node.hook = late
    result = runs.once()
    assert runs.outcomes()[0] == ("cured" if comes_back == "fresh" else "not-cured")
    assert result.status == (Exit.NOTHING_OWED if comes_back == "fresh" else Exit.NOT_CURED)
    assert node.stops[1, "calico-node"] == 1

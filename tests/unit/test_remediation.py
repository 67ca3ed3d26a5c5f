# SPDX-License-Identifier: Apache-2.0
"""One remediation on a node in memory: look, intent, another look, stop, proof, outcome; and what it tells."""

from __future__ import annotations

import contextlib
import fcntl
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ostreewatchd.ledger import Ledger, read
from ostreewatchd.ledger import file as ledger_file
from ostreewatchd.model import Exit, Settings
from ostreewatchd.peers.cri.errors import AnswerUnclear, RuntimeLost, RuntimeRefused, RuntimeSilent, RuntimeUnavailable
from ostreewatchd.remediation.loop import Result, remediate
from ostreewatchd.remediation.program import AlreadyRunning, run
from ostreewatchd.report.journal import Journal, Kind
from tests.fakes.journald import FakeJournal
from tests.fakes.world import Node, Subject
from tests.unit import worlds


class Bench:
    """A node, a ledger, a journal."""

    def __init__(self, folder: Path, fake: FakeJournal) -> None:
        self.node = Node([Subject("calico-node"), Subject("kube-multus")])
        self.path = str(folder / "ledger.db")
        self._fake = fake
        self._journal = Journal("ostreewatchd-remediate", fake.path)
        self.kinds: list[str] = []

    def run(self, **settings: object) -> Result:
        with Ledger(self.path, worlds.BOOT) as ledger:
            result = remediate(self.node, ledger, self._journal, Settings(**{"proof": 20.0, **settings}))  # type: ignore[arg-type]
        entries = self._fake.entries()
        self.kinds = [entry["OSTREEWATCHD_KIND"].decode() for entry in entries]
        return result

    def outcomes(self) -> list[tuple[str, str]]:
        return [(act.subject.container, act.outcome) for act in read(self.path).acts]

    def close(self) -> None:
        self._journal.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with FakeJournal(tmp_path / "journal") as fake:
        one = Bench(tmp_path, fake)
        yield one
        one.close()


def test_nothing_switched_nothing_done(bench: Bench) -> None:
    result = bench.run()
    assert (result.status, bench.node.requests, bench.outcomes()) == (Exit.NOTHING_OWED, [], [])


def test_a_switch_is_healed_one_by_one_in_order(bench: Bench) -> None:
    """DESIGN §7: token writers in the platform's order, one at a time; §3: proof is the next look."""
    bench.node.switch()
    result = bench.run()
    assert result.status == Exit.NOTHING_OWED and result.summary.startswith("2 restarted and cured")
    assert bench.outcomes() == [("calico-node", "cured"), ("kube-multus", "cured")]
    assert bench.kinds == ["intent", "cured", "intent", "cured"]
    proofs = [act.proof for act in read(bench.path).acts]
    assert all("attempt 1" in proof and "65024:1001" in proof and "s after the stop" in proof for proof in proofs)
    assert [act.switch_id for act in read(bench.path).acts].count(read(bench.path).switch.id) == 2  # type: ignore[union-attr]


def test_each_switch_in_turn_and_nothing_in_between(bench: Bench) -> None:
    for generation in (1, 2, 3):
        bench.node.switch()
        assert bench.run().status == Exit.NOTHING_OWED
        assert bench.run().summary == "nothing restarted; nothing owed"
        assert bench.node.stops[generation, "calico-node"] == 1
    assert len(bench.node.requests) == 6


@pytest.mark.parametrize("comes_back", ["stale", "never"])
def test_one_failed_proof_stops_the_rest(bench: Bench, comes_back: str) -> None:
    """Invariant 7, and DESIGN §4's breaker. Looks that take long are within ProofSec, and not on top of it."""
    bench.node.look_cost = 0.5
    bench.node.subjects[0].comes_back = comes_back  # type: ignore[assignment]
    bench.node.switch()
    started = bench.node.clock
    result = bench.run()
    assert result.status == Exit.NOT_CURED and bench.node.stops == {(1, "calico-node"): 1}
    assert 20 <= bench.node.clock - started <= 25, "ProofSec bounds it"
    assert bench.outcomes() == [("calico-node", "not-cured")]
    why = "is stale too" if comes_back == "stale" else "has not started it again"
    assert why in read(bench.path).acts[0].proof
    assert bench.kinds == ["intent", "not-cured"]
    again = bench.run()
    assert again.status == Exit.OWED and worlds.names(again.plan.refusals) == ["breaker"]
    assert len(bench.node.requests) == 1


def test_after_a_failed_proof_the_next_switch_is_a_new_chance(bench: Bench) -> None:
    bench.node.subjects[0].comes_back = "stale"
    bench.node.switch()
    bench.run()
    bench.node.switch()
    bench.node.subjects[0].comes_back = "fresh"
    bench.node.restart("calico-node")
    assert bench.run().status == Exit.NOTHING_OWED
    assert bench.node.stops == {(1, "calico-node"): 1, (2, "kube-multus"): 1}


def test_a_pod_that_is_gone_is_no_failure(bench: Bench) -> None:
    bench.node.subjects[0].comes_back = "pod-deleted"
    bench.node.switch()
    assert bench.run().status == Exit.NOTHING_OWED
    assert bench.outcomes() == [("calico-node", "pod-gone"), ("kube-multus", "cured")]


@pytest.mark.parametrize("ends", ["its directory is gone", "its directory is not known", "only its sandbox is gone"])
def test_a_pod_that_kubelet_has_forgotten_is_not_waited_for(bench: Bench, ends: str) -> None:
    """The whole of ProofSec passes only where nothing proves before that the pod is gone."""
    bench.node.subjects = [Subject("calico-node", comes_back="pod-deleted")]
    if ends == "only its sandbox is gone":
        # As while kubelet makes another, and fails.
        bench.node.change = lambda built: built.kubelet(pid=900, pods=("uid-of-calico-node-x1",))
    bench.node.has_directories = ends == "its directory is gone"
    bench.node.switch()
    began = bench.node.clock
    bench.run(proof=90.0)
    assert bench.outcomes() == [("calico-node", "pod-gone")]
    took = bench.node.clock - began
    assert took < 12 if ends == "its directory is gone" else took > 90


def test_back_off_is_waited_for(bench: Bench) -> None:
    """A second stop soon after a first waited 12.8 s on a real kubelet."""
    bench.node.subjects[0].delay = 12.8
    bench.node.switch()
    assert bench.run().status == Exit.NOTHING_OWED
    assert "12." in read(bench.path).acts[0].proof or "13." in read(bench.path).acts[0].proof


@pytest.mark.parametrize("error", [RuntimeSilent, RuntimeLost, AnswerUnclear])
@pytest.mark.parametrize("deaf", [False, True], ids=["it was done", "it was not"])
def test_an_answer_that_says_nothing(bench: Bench, error: type[Exception], deaf: bool) -> None:
    """Invariant 7: not return codes; the next look tells whether it was done."""

    def silent(_: Subject) -> str:
        raise error("the runtime is odd", "look at it")

    bench.node.stop_effect, bench.node.deaf = silent, deaf
    bench.node.switch()
    result = bench.run()
    if deaf and error is RuntimeLost:  # The request died with the runtime, which somebody restarted.
        assert result.status == Exit.OWED and {outcome for _, outcome in bench.outcomes()} == {"not-done"}
    elif deaf:
        assert result.status == Exit.NOT_CURED and "still runs" in read(bench.path).acts[0].proof
        assert len(bench.node.requests) == 1
    else:
        assert result.status == Exit.NOTHING_OWED
        assert set(bench.node.stops.values()) == {1}


@pytest.mark.parametrize(
    "error", [RuntimeUnavailable("nobody listens", "start it"), RuntimeRefused("no", "see", "PERMISSION_DENIED")]
)
def test_a_stop_that_was_surely_not_done(bench: Bench, error: Exception) -> None:
    """It stays owed and is tried again later, a bounded number of times a run."""

    def refuse(_: Subject) -> str:
        raise error

    bench.node.stop_effect, bench.node.deaf = refuse, True
    bench.node.switch()
    result = bench.run()
    assert result.status == Exit.OWED and not bench.node.stops
    assert worlds.names(result.plan.refusals) == ["stop-failed", "stop-failed"]
    assert sorted(Counter(bench.node.requests).values()) == [3, 3], "a few times each"
    assert bench.outcomes() == [("calico-node", "not-done")] * 3 + [("kube-multus", "not-done")] * 3
    assert "failed" in bench.kinds
    bench.node.stop_effect, bench.node.deaf = None, False
    assert bench.run(per_switch=2).status == Exit.NOTHING_OWED, "they are no part of the budget"
    assert bench.outcomes()[6:] == [("calico-node", "cured"), ("kube-multus", "cured")]
    assert set(bench.node.stops.values()) == {1}


def test_a_stop_that_was_refused_and_done(bench: Bench) -> None:
    """Invariant 7: a runtime that killed the container and failed to see its end says no, and has stopped it."""

    def refuse(_: Subject) -> str:
        raise RuntimeRefused("waiting for the exit failed", "see its journal", "INTERNAL")

    bench.node.stop_effect = refuse
    bench.node.switch()
    assert bench.run().status == Exit.NOTHING_OWED
    assert bench.outcomes() == [("calico-node", "cured"), ("kube-multus", "cured")]
    assert set(bench.node.stops.values()) == {1}


@pytest.mark.parametrize("age", [30.0, 130.0])
def test_an_interrupted_act_ends_when_nothing_can_come_of_it_any_more(bench: Bench, age: float) -> None:
    """Killed between intent and stop, and kubelet is stopped: it stays open while the stop may still come, and is
    then certain to have stopped nothing."""
    bench.node.switch()

    def killed(_: Subject) -> str:
        raise KeyboardInterrupt

    bench.node.stop_effect, bench.node.deaf = killed, True
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    assert bench.outcomes() == [("calico-node", "")]
    bench.node.stop_effect, bench.node.deaf = None, False
    bench.node.change = lambda built: built.kubelet(problem="no process", refusal="kubelet-inactive")
    with contextlib.closing(sqlite3.connect(bench.path)) as db, db:
        db.execute(
            "UPDATE act SET boot_id = ?, intent_boottime = ?, intent_at = ?",
            (worlds.BOOT, worlds.UPTIME - age, worlds.NOW - age),
        )
    assert bench.run().status == Exit.OWED
    assert bench.outcomes() == [("calico-node", "" if age < 120 else "not-done")]
    bench.node.change = lambda built: built
    assert bench.run().status == Exit.NOTHING_OWED
    assert set(bench.node.stops.values()) == {1}


def test_somebody_elses_script_was_faster(bench: Bench) -> None:
    """Invariant 6: look again right before acting."""
    bench.node.switch()
    looks = []

    def script(name: str) -> None:
        if name == "look":
            looks.append(name)
            if len(looks) == 2:
                bench.node.restart("calico-node")

    bench.node.hook = script
    assert bench.run().status == Exit.NOTHING_OWED
    assert bench.node.stops == {(1, "kube-multus"): 1}
    assert bench.outcomes()[0] == ("calico-node", "not-needed")


def test_a_torn_second_look_costs_time_and_not_the_cure(bench: Bench) -> None:
    """Invariant 4: unknown is not stale; look again."""
    bench.node.switch()
    looks = []

    def torn(built: worlds.World) -> worlds.World:
        looks.append(1)
        return built.host(worlds.CNI, worlds.gone()) if len(looks) == 2 else built

    bench.node.change = torn
    assert bench.run().status == Exit.NOTHING_OWED
    assert set(bench.node.stops.values()) == {1} and len(bench.node.stops) == 2
    assert bench.outcomes()[0] == ("calico-node", "not-done"), "nobody has seen that it needs none"


def test_a_switch_that_begins_meanwhile_holds_the_stop_back(bench: Bench) -> None:
    bench.node.switch()
    looks = []

    def begins(built: worlds.World) -> worlds.World:
        looks.append(1)
        return built.flag() if len(looks) >= 2 else built

    bench.node.change = begins
    result = bench.run()
    assert result.status == Exit.OWED and not bench.node.requests
    assert worlds.names(result.plan.refusals) == ["switch-in-progress"]
    bench.node.change = lambda built: built
    assert bench.run().status == Exit.NOTHING_OWED
    assert set(bench.node.stops.values()) == {1}


def at_look(bench: Bench, number: int, act: Callable[[], None]) -> None:
    """Do something at the n-th look."""
    looks = []

    def hook(name: str) -> None:
        if name == "look":
            looks.append(name)
            if len(looks) == number:
                act()

    bench.node.hook = hook


def test_another_switch_between_plan_and_stop(bench: Bench) -> None:
    """What is stopped is stopped for the switch that the act is of."""
    bench.node.switch()
    at_look(bench, 2, bench.node.switch)
    assert bench.run().status == Exit.NOTHING_OWED
    assert bench.outcomes() == [("calico-node", "not-done"), ("calico-node", "cured"), ("kube-multus", "cured")]
    assert bench.node.stops == {(2, "calico-node"): 1, (2, "kube-multus"): 1}


def test_another_switch_between_stop_and_proof(bench: Bench) -> None:
    """No proof is waited for that cannot come any more, and no failure is told that is none."""
    bench.node.switch()

    def again() -> None:
        bench.node.clock += 5
        bench.node._kubelet()
        bench.node.switch()

    at_look(bench, 3, again)
    started = bench.node.clock
    assert bench.run().status == Exit.NOTHING_OWED
    assert bench.outcomes() == [("calico-node", "superseded"), ("calico-node", "cured"), ("kube-multus", "cured")]
    assert dict(bench.node.stops) == {(1, "calico-node"): 1, (2, "calico-node"): 1, (2, "kube-multus"): 1}
    assert bench.node.clock - started < 15


def test_no_two_are_down_at_once_when_a_switch_comes_before_the_proof(bench: Bench) -> None:
    """The next one waits until kubelet has started the one before, and until the host has settled."""
    bench.node.subjects[0].delay = 8.0
    bench.node.switch()
    at_look(bench, 4, bench.node.switch)
    result = bench.run(settle=2.0)
    assert result.status == Exit.OWED and worlds.names(result.plan.refusals) == ["waits-for-restart"]
    assert dict(bench.node.stops) == {(1, "calico-node"): 1}
    bench.node.clock += 8.0
    assert bench.run().status == Exit.NOTHING_OWED
    assert bench.outcomes() == [("calico-node", "superseded"), ("kube-multus", "cured")]


@pytest.mark.parametrize("number", [1, 2])
def test_a_new_switch_settles_before_the_next_stop(bench: Bench, number: int) -> None:
    """Whoever asked has waited for the switch that he saw, and not for this one."""
    bench.run()
    bench.node.switch()
    switched: list[float] = []
    stopped: list[float] = []

    def switch() -> None:
        bench.node.switch()
        switched.append(bench.node.clock)

    at_look(bench, number, switch)
    hook = bench.node.hook

    def noted(name: str) -> None:
        hook(name)
        if name == "before-stop":
            stopped.append(bench.node.clock)

    bench.node.hook = noted
    assert bench.run(settle=2.0).status == Exit.NOTHING_OWED
    assert min(at for at in stopped if at > switched[0]) - switched[0] >= 2.0


def test_a_switch_under_way_is_not_in_the_ledger(bench: Bench) -> None:
    bench.node.switch()
    bench.node.change = lambda built: built.flag()
    assert bench.run().status == Exit.OWED
    assert read(bench.path).switch is None


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda built: built.kubelet(problem="no process", refusal="kubelet-inactive"), "kubelet-inactive"),
        (lambda built: built.runtime(problem="no answer"), "runtime-not-answering"),
        (lambda built: built.system(state="stopping"), "shutting-down"),
    ],
)
def test_refused_now_and_healed_once_the_cause_is_gone(bench: Bench, change: object, name: str) -> None:
    bench.node.switch()
    bench.node.change = change  # type: ignore[assignment]
    result = bench.run()
    assert result.status == Exit.OWED and worlds.names(result.plan.refusals) == [name] and not bench.node.requests
    bench.node.change = lambda built: built
    assert bench.run().status == Exit.NOTHING_OWED and len(bench.node.stops) == 2


def test_mode_observe_stops_nothing(bench: Bench) -> None:
    bench.node.switch()
    result = bench.run(mode="observe")
    assert result.status == Exit.OWED and worlds.names(result.plan.refusals) == ["mode-observe", "mode-observe"]
    assert not bench.node.requests and not bench.outcomes()


def test_no_ledger_no_act(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 6: the intent could not be written, so nothing was stopped."""
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.02)
    bench.node.switch()
    bench.run(mode="observe")
    other = sqlite3.connect(bench.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    result = bench.run()
    assert result.status == Exit.OWED and worlds.names(result.plan.refusals) == ["ledger-unusable"]
    assert not bench.node.requests
    other.close()
    assert bench.run().status == Exit.NOTHING_OWED


def test_one_remediation_at_a_time(tmp_path: Path) -> None:
    journal = Journal("t", str(tmp_path / "no-journal"))
    path = tmp_path / "ledger.db"
    with open(f"{path}.lock", "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # The weakest: any holder keeps it out.
        with pytest.raises(AlreadyRunning):
            run(journal, Settings(), str(path), world=Node([]))
    journal.close()
    assert not path.exists()


def test_kinds_are_the_journals() -> None:
    assert {"intent", "cured", "not-cured", "failed"} <= {kind.name.lower().replace("_", "-") for kind in Kind}


def test_one_container_that_cannot_be_stopped_does_not_hold_up_the_others(bench: Bench) -> None:
    """Invariant 12: the healthy rest goes on."""

    def refuse(subject: Subject) -> str:
        if subject.name == "calico-node":
            raise RuntimeRefused("no", "look at it", "INTERNAL")
        return "stopped"

    bench.node.stop_effect = refuse
    bench.node.deaf_to = "calico-node"
    bench.node.switch()
    result = bench.run()
    assert result.status == Exit.OWED and worlds.names(result.plan.refusals) == ["stop-failed"]
    assert bench.node.stops == {(1, "kube-multus"): 1}


def test_a_torn_look_decides_nothing(bench: Bench) -> None:
    """Invariant 4: the host is being switched just now. Looked at again, the same containers are cured."""
    looks = iter([True, True, False, True])
    bench.node.switch()
    bench.node.change = lambda built: built.part(torn="it moved" if next(looks, False) else "")
    result = bench.run()
    assert result.status == Exit.NOTHING_OWED
    cured = [("calico-node", "cured"), ("kube-multus", "cured")]
    assert bench.outcomes() == [("calico-node", "not-done"), *cured], "the second look of the first act was torn"


def test_a_host_that_is_always_torn_is_could_not_know(bench: Bench) -> None:
    """Invariant 8: the loop ends, and it does not say that nothing is owed."""
    bench.node.switch()
    bench.node.change = lambda built: built.part(torn="it moved")
    result = bench.run()
    assert result.status == Exit.COULD_NOT_KNOW and not bench.node.requests and bench.outcomes() == []

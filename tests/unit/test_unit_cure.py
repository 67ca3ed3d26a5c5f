# SPDX-License-Identifier: Apache-2.0
"""A runtime is restarted once, with its intent in the ledger before and its proof after; through crashes at each
moment, and where somebody else is faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from ostreewatchd.act.unit import Ran
from ostreewatchd.ledger import Clock, Ledger, read
from ostreewatchd.model import (
    CriSeen,
    Exit,
    History,
    InFlight,
    KubeletSeen,
    Sample,
    Settings,
    Snapshot,
    Step,
    UnitSeen,
)
from ostreewatchd.peers.systemd import SystemdError
from ostreewatchd.remediation.loop import Result, remediate
from ostreewatchd.report.journal import Journal
from tests.fakes.journald import FakeJournal
from tests.fakes.world import Crash
from tests.unit import worlds
from tests.unit.runtimes import KATA, RUNC, crio
from tests.unit.runtimetable import Row
from tests.unit.worlds import BOOTED_AT, NOW, UPTIME


@dataclass
class Host:
    """A World with a runtime whose files have one handler more than it was started with."""

    moment: Callable[[str], None] = lambda _: None
    clock: float = UPTIME
    starts: int = 1
    """Of the runtime; the invocation is its number."""
    behind: bool = True
    helps: bool = True
    """A restart makes it take over what the files have."""
    busy: bool = False
    answers: bool = True
    known: bool = True
    """Whether systemd says anything of the units."""
    result: str = "done"
    creating: tuple[str, ...] = ()
    steps: list[Step] = field(default_factory=list)

    @property
    def invocation(self) -> str:
        return f"{self.starts:032x}"

    def look(self, history: History, *, deep: bool) -> Snapshot:
        self.moment("look")
        self.clock += 0.1
        own = {"invocation": self.invocation, "busy": self.busy, "ready": self.answers, "started_at": self._started()}
        loaded = (RUNC,) if self.behind else (RUNC, KATA)
        runtime = crio(handlers=(RUNC, KATA), loaded=loaded, own=own, in_flight=InFlight(creating=self.creating))
        built = worlds.world().live(fingerprint="one").part(history=history)
        whole = Row("", runtime, snapshot=built.snapshot()).look()
        return whole if self.known else replace(whole, node_runtime=None)

    def _started(self) -> float:
        return NOW - 9000 + self.starts

    def stop(self, step: Step, socket: str) -> str:
        raise AssertionError("no container is stopped")

    def run_unit(self, step: Step) -> Ran:
        self.moment("asked")
        self.steps.append(step)
        if step.invocation != self.invocation:
            return Ran(False, "somebody else has restarted it meanwhile", self.invocation)
        if self.result != "canceled":
            self.start_anew()
        self.moment("done")
        return Ran(True, f"job {self.result}", self.invocation)

    def start_anew(self) -> None:
        self.starts += 1
        self.behind = self.behind and not self.helps

    def sample(self) -> Sample:
        self.moment("sample")
        return Sample(
            at=self.clock, wall=BOOTED_AT + self.clock, boot_id=worlds.BOOT, kubelet=UnitSeen(), cri=CriSeen(),
            api=KubeletSeen(), runtime=UnitSeen(unit="crio.service", invocation=self.invocation),
        )  # fmt: skip

    def monotonic(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds


class Bench:
    def __init__(self, folder: Path, fake: FakeJournal) -> None:
        self.host = Host()
        self.path = str(folder / "ledger.db")
        self._journal = Journal("ostreewatchd-remediate", fake.path)

    def run(self, lock: str = "none") -> Result:
        clock = Clock(lambda: BOOTED_AT + self.host.clock, lambda: self.host.clock)
        with Ledger(self.path, worlds.BOOT, clock) as ledger:
            return remediate(self.host, ledger, self._journal, Settings(proof=20.0, lock=lock))  # type: ignore[arg-type]

    def outcomes(self) -> list[str]:
        return [act.outcome for act in read(self.path).acts]

    def close(self) -> None:
        self._journal.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with FakeJournal(tmp_path / "journal") as fake:
        one = Bench(tmp_path, fake)
        yield one
        one.close()


def test_it_is_restarted_once_and_the_ledger_tells_of_both_starts(bench: Bench) -> None:
    before = bench.host.invocation
    result = bench.run()
    assert (result.status, bench.host.starts) == (Exit.NOTHING_OWED, 2)
    (act,) = read(bench.path).acts
    assert (act.step, str(act.subject), act.outcome) == ("restart-unit", "crio.service", "cured")
    assert (act.invocation, act.successor) == (before, bench.host.invocation)
    assert act.intent_boottime < act.done_boottime
    with Ledger(bench.path) as ledger:
        known = ledger.before(act.id)
    assert known is not None and known.runtime.invocation == before, "what recovery is judged against"
    assert bench.run().status == Exit.NOTHING_OWED and bench.host.starts == 2, "the second plan is nothing"


def test_not_without_a_lock(bench: Bench) -> None:
    result = bench.run(lock="")
    assert [one.name for one in result.plan.refusals] == ["no-lock"]
    assert (result.status, bench.host.starts, bench.outcomes()) == (Exit.OWED, 1, [])


@pytest.mark.parametrize("moment", ["look", "sample", "asked", "done"])
@pytest.mark.parametrize("number", range(1, 6))
def test_a_crash_at_any_moment(bench: Bench, moment: str, number: int) -> None:
    left = number

    def crash(now: str) -> None:
        nonlocal left
        left -= now == moment
        if now == moment and left == 0:
            raise Crash

    bench.host.moment = crash
    for _ in range(3):
        try:
            bench.run()
        except Crash:
            continue
    bench.host.moment = lambda _: None
    bench.run()
    assert (bench.host.starts, bench.host.behind) == (2, False)
    assert bench.outcomes()[-1] == "cured" and "" not in bench.outcomes()


def test_somebody_elses_restart_is_not_answered_with_another(bench: Bench) -> None:
    """Between the plan and the second look."""
    looks = 0

    def other(now: str) -> None:
        nonlocal looks
        looks += now == "look"
        if looks == 2:
            bench.host.start_anew()

    bench.host.moment = other
    assert bench.run().status == Exit.NOTHING_OWED
    assert (bench.host.starts, bench.host.steps, bench.outcomes()) == (2, [], ["not-done"])


def test_it_was_overtaken_at_the_last_moment(bench: Bench) -> None:
    bench.host.moment = lambda now: bench.host.start_anew() if now == "asked" else None
    assert bench.run().status == Exit.NOTHING_OWED
    assert (bench.host.starts, bench.outcomes()) == (2, ["not-done"])


def test_a_restart_that_does_not_help_is_not_repeated(bench: Bench) -> None:
    bench.host.helps = False
    assert bench.run().status == Exit.NOT_CURED
    for _ in range(3):
        result = bench.run()
        assert result.status != Exit.NOTHING_OWED and result.plan.refusals
    assert (bench.host.starts, bench.outcomes()) == (2, ["not-cured"])
    assert read(bench.path).acts[0].failure == "still-stale"


def test_a_job_that_was_canceled_is_not_repeated(bench: Bench) -> None:
    bench.host.result = "canceled"
    assert bench.run().status == Exit.NOT_CURED
    bench.host.result = "done"
    bench.run()
    assert bench.host.starts == 1, "its end is a person's to find out"
    (act,) = read(bench.path).acts
    assert (act.outcome, act.failure) == ("not-cured", "unit-will-not-start") and "canceled" in act.proof


def test_one_that_does_not_answer_afterwards(bench: Bench) -> None:
    bench.host.moment = lambda now: setattr(bench.host, "answers", now != "done" and bench.host.answers)
    assert bench.run().status == Exit.NOT_CURED
    assert "does not answer" in read(bench.path).acts[0].proof


def test_what_nobody_tells_of_afterwards_is_open_until_somebody_does(bench: Bench) -> None:
    """That is no failure of the unit's, and nothing more is done meanwhile."""
    bench.host.moment = lambda now: setattr(bench.host, "known", now != "done" and bench.host.known)
    bench.run()
    assert (bench.host.starts, bench.outcomes()) == (2, [""])
    bench.run()
    assert (bench.host.starts, bench.outcomes()) == (2, [""])
    bench.host.known, bench.host.moment = True, lambda _: None
    assert bench.run().status == Exit.NOTHING_OWED
    assert (bench.host.starts, bench.outcomes()) == (2, ["cured"])


def test_systemd_does_not_answer(bench: Bench) -> None:
    """Whether it took the job is not known: the start that runs tells."""

    def lost(now: str) -> None:
        if now == "done":
            raise SystemdError("systemd, asked for RestartUnit of crio.service: timed out", "")

    bench.host.moment = lost
    assert bench.run().status == Exit.NOTHING_OWED
    assert (bench.host.starts, bench.outcomes()) == (2, ["cured"])


def test_what_came_between_the_looks_holds_it_back(bench: Bench) -> None:
    looks = 0

    def begins(now: str) -> None:
        nonlocal looks
        looks += now == "look"
        bench.host.creating = ("a/b",) if looks >= 2 else ()

    bench.host.moment = begins
    result = bench.run()
    assert (bench.host.starts, [one.name for one in result.plan.refusals]) == (1, ["containers-in-flight"])
    assert bench.outcomes() == ["not-done"]


def test_a_job_that_still_runs_is_waited_for_by_the_next_run(bench: Bench) -> None:
    def killed(now: str) -> None:
        if now == "done":
            raise Crash

    bench.host.moment = killed
    with pytest.raises(Crash):
        bench.run()
    bench.host.moment, bench.host.busy = lambda _: None, True
    assert bench.outcomes() == [""] and bench.run().status != Exit.NOT_CURED
    bench.host.busy = False
    bench.run()
    assert (bench.host.starts, bench.outcomes()) == (2, ["cured"])

# SPDX-License-Identifier: Apache-2.0
"""A restart that the ledger has is judged until the node has recovered, and once more minutes afterwards; each verdict
is written once, and what is not well is an alarm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Optional

import pytest
from msgspec.structs import replace

from ostreewatchd import ledger as ledgers
from ostreewatchd.judge.recovery import SAMPLES
from ostreewatchd.ledger import Clock, Ledger
from ostreewatchd.model import PastRecovery, Sample, Step, Subject
from ostreewatchd.remediation.recovering import LATE, LIMIT, TOO_LATE, Recoverer
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal
from tests.fakes.journald import FakeJournal
from tests.unit.recoveries import BOOT, KUBELET, RESTART, WALL, earlier, pod, sample, unit

APART = 7.0
"""Seconds that the machine was suspended: CLOCK_BOOTTIME is that far ahead."""
Change = Callable[[Sample], Sample]


class World:
    """Seeing, with a clock that only sleep moves."""

    def __init__(self) -> None:
        self.now = KUBELET + 1
        self.change: Change = lambda one: one
        self.called_back = 0
        self.samples = 0

    def sample(self) -> Sample:
        self.samples += 1
        return self.change(sample(self.now))

    def monotonic(self) -> float:
        return self.now

    def boottime(self) -> float:
        return self.now + APART

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def come_back(self) -> None:
        self.called_back += 1


class Run:
    """A remediation after a restart of CRI-O at RESTART."""

    def __init__(self, folder: Path, fake: FakeJournal) -> None:
        self.world, self.fake, self.path = World(), fake, str(folder / "ledger.db")
        self.ledger = Ledger(self.path, BOOT, Clock(lambda: WALL + self.world.now, lambda: RESTART - 0.5 + APART))
        self.journal = Journal("test", fake.path)
        self.recoverer = Recoverer(self.world, self.ledger, self.journal)
        self.switch = self.ledger.record_switch("f", BOOT, "d", 1.0)

    def restart(self, name: str = "crio.service", outcome: str = "cured", before: Optional[Sample] = None) -> int:
        step = Step(
            kind="stop-container", subject=Subject(kind="unit", unit=name), sandbox_id="", attempt=None, grace=0,
            because="", smaller="", larger="",
        )  # fmt: skip
        act = self.ledger.intend(self.switch, step)
        self.ledger._db.execute("UPDATE act SET step = 'restart-unit' WHERE id = ?", (act,))
        if before is not None:
            self.ledger.remember_before(act, before)
        self.ledger.conclude(act, outcome, "")
        return act

    def known(self) -> PastRecovery:
        (one,) = ledgers.read(self.path).recoveries
        return one

    def told(self) -> list[str]:
        return [entry["MESSAGE"].decode() for entry in self.fake.entries()]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with FakeJournal(tmp_path / "journal") as fake:
        made = Run(tmp_path, fake)
        yield made
        made.journal.close()
        made.ledger.__exit__()


def test_it_recovers_and_is_well_later(run: Run) -> None:
    act = run.restart(before=earlier())
    assert run.recoverer.judge_restarts(BOOT)
    # Twice the lease is older than kubelet's start; then the window.
    assert run.world.samples == 2 + SAMPLES and run.known().act == act
    assert (run.known().verdict, run.known().late_verdict) == ("recovered", "")
    assert run.recoverer.is_due(BOOT)
    # Nothing is judged twice, and nothing before its time.
    assert run.recoverer.judge_restarts(BOOT) and run.world.samples == 8
    run.world.now = RESTART + LATE + 1
    assert run.recoverer.judge_restarts(BOOT) and run.world.samples == 9
    assert run.known().late_verdict == "recovered" and not run.recoverer.is_due(BOOT)
    assert run.recoverer.judge_restarts(BOOT) and run.world.samples == 9
    said = run.told()
    assert [text.startswith("the node has recovered from the restart of crio.service") for text in said] == [True] * 2
    history = ledgers.read(run.path)
    assert len(words.recovery(history, history.acts[0])) == 2


def test_the_late_look_finds_that_nobody_syncs(run: Run) -> None:
    """PLEG (kubernetes#77728): well at first, and unhealthy three minutes later."""
    run.restart()
    assert run.recoverer.judge_restarts(BOOT)
    stuck = WALL + run.world.now
    run.world.change = lambda one: replace(one, api=replace(one.api, pleg_wall=stuck))
    run.world.now = RESTART + LATE + 20
    assert not run.recoverer.judge_restarts(BOOT)
    assert run.known().late_verdict == "not-yet" and "PLEG is unhealthy" in run.known().late_why
    entry = run.fake.entries()[-1]
    assert b"NOT recovered" in entry["MESSAGE"] and entry["PRIORITY"] == b"2"


def test_a_late_look_that_was_missed_is_not_asked_for_for_ever(run: Run) -> None:
    """Suspended for longer than an hour: else each remediation would start the next one until the next boot."""
    run.restart()
    run.recoverer.judge_restarts(BOOT)
    run.world.now = RESTART + TOO_LATE - 5
    assert run.recoverer.is_due(BOOT)
    run.world.now = RESTART + TOO_LATE + 5
    assert not run.recoverer.is_due(BOOT)
    samples = run.world.samples
    assert run.recoverer.judge_restarts(BOOT) and run.world.samples == samples


def test_a_moments_trouble_is_no_alarm_later(run: Run) -> None:
    run.restart()
    run.recoverer.judge_restarts(BOOT)
    run.world.now = RESTART + LATE + 1
    until = run.world.now + 5
    run.world.change = lambda one: one if one.at > until else replace(one, orphans=("a" * 64,))
    assert run.recoverer.judge_restarts(BOOT) and run.known().late_verdict == "recovered"


def test_a_pod_that_stays_down_names_itself_after_the_limit(run: Run) -> None:
    run.restart(before=earlier())
    down = pod(3, ready=False, ready_changed_wall=WALL + RESTART + 2)
    run.world.change = lambda one: replace(
        one, api=replace(one.api, pods=tuple(down if it.uid == down.uid else it for it in one.api.pods or ()))
    )
    assert not run.recoverer.judge_restarts(BOOT)
    assert LIMIT - 5 < run.world.now - KUBELET <= LIMIT + 1
    assert run.known().verdict == "not-yet" and "default/pod-3" in run.known().why
    (said,) = run.told()
    assert "NOT recovered" in said and "default/pod-3" in said


def test_ready_and_knows_none_is_told_loudly(run: Run) -> None:
    run.restart()
    run.world.change = lambda one: replace(one, cri=replace(one.cri, sandboxes=(), containers=()))
    assert not run.recoverer.judge_restarts(BOOT)
    assert "knows none of its pods: its storage may be damaged" in run.told()[-1]
    assert run.known().why.startswith("the runtime says that it is ready and knows none")


def test_what_was_before_is_what_counts(run: Run) -> None:
    """The same node, with and without a record of what ran before."""
    run.world.change = lambda one: replace(one, cri=replace(one.cri, containers=one.cri.containers[1:]))
    run.restart()
    assert run.recoverer.judge_restarts(BOOT)
    run.restart(before=earlier())
    assert not run.recoverer.judge_restarts(BOOT)
    assert "default/pod-0/app" in run.told()[-1]


@pytest.mark.parametrize("outcome", ["", "not-done", "not-needed"])
def test_what_did_not_happen_is_not_judged(run: Run, outcome: str) -> None:
    run.restart(outcome=outcome)
    assert run.recoverer.judge_restarts(BOOT) and not run.recoverer.is_due(BOOT)
    assert run.recoverer.judge_restarts("another boot") and run.world.samples == 0


def test_kubelet_alone(run: Run) -> None:
    """The runtime is as old as it was: only what is newer than kubelet's start is asked for."""
    run.restart("kubelet.service")
    run.world.change = lambda one: replace(one, runtime=unit("crio.service", 10.0), config_wall=WALL)
    assert run.recoverer.judge_restarts(BOOT), run.told()


def test_a_ledger_of_an_older_version(run: Run) -> None:
    run.restart()
    run.ledger._db.execute("DROP TABLE recovery")
    assert ledgers.read(run.path).recoveries == ()


def test_a_damaged_record_of_before_is_none(run: Run) -> None:
    act = run.restart(before=earlier())
    assert run.ledger.before(act) == earlier()
    run.ledger._db.execute("UPDATE recovery SET before = '{'")
    assert run.ledger.before(act) is None and run.ledger.before(act + 1) is None

# SPDX-License-Identifier: Apache-2.0
"""When the watcher asks: at once for what is new, after growing pauses for what stays, and with an alarm in time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import msgspec
import pytest

from ostreewatchd import asking, ledger, wanted
from ostreewatchd.judge import judge
from ostreewatchd.ledger import Ledger
from ostreewatchd.model import Daemon, Ostree, Plan, Refusal, Subject
from ostreewatchd.report.journal import Journal
from tests.fakes.journald import FakeJournal
from tests.unit.sources import ROOT
from tests.unit.test_runtime_watch import KUBELET, READER
from tests.unit.worlds import CNI, NEW, OLD, World, stale, world


class Clock:
    """A loop whose time is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []

    def call_later(self, delay: float, callback: Callable[..., None], *arguments: object) -> Timer:
        timer = Timer(self.now + delay, lambda: callback(*arguments))
        self.timers.append(timer)
        return timer

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = [timer for timer in self.timers if timer.at <= end and not timer.cancelled]
            if not due:
                break
            first = min(due, key=lambda timer: timer.at)
            self.timers.remove(first)
            self.now = first.at
            first.callback()
        self.now = end


class Timer:
    def __init__(self, at: float, callback: Callable[[], None]) -> None:
        self.at, self.callback, self.cancelled = at, callback, False

    def cancel(self) -> None:
        self.cancelled = True


class Bench:
    """An Asker that looks at `world` whenever it wants to look."""

    def __init__(self, folder: Path, fake: FakeJournal) -> None:
        self.clock = Clock()
        self.world: World = stale().switch()
        self.installed = True
        self.asked: list[float] = []
        self.gave_up = 0
        self._fake = fake
        self.journal = Journal("ostreewatchd", fake.path)
        self.asker = asking.Asker(self.clock, self.journal, self.look, self._give_up)  # type: ignore[arg-type]

    def _give_up(self) -> None:
        self.gave_up += 1

    def look(self) -> None:
        snapshot = self.world.snapshot()
        self.asker.consider(snapshot, judge(snapshot), installed=self.installed)

    def kinds(self) -> list[str]:
        return [entry["OSTREEWATCHD_KIND"].decode() for entry in self._fake.entries()]


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(ledger, "PATH", str(tmp_path / "ledger.db"))
    for function in (ledger.newest_run, ledger.is_running, ledger.last_run):
        monkeypatch.setattr(function, "__defaults__", (str(tmp_path / "ledger.db"),))
    with FakeJournal(tmp_path / "journal") as fake:
        one = Bench(tmp_path, fake)
        monkeypatch.setattr(wanted.ask, "__defaults__", (str(tmp_path / "wanted"),))
        real = wanted.ask

        def noted() -> None:
            real()
            one.asked.append(one.clock.now)

        monkeypatch.setattr(wanted, "ask", noted)
        yield one
        one.journal.close()


def ran(*refusals: Refusal, ended: bool = True) -> None:
    with Ledger(ledger.PATH) as book:
        number = book.begin_run()
        if ended:
            book.end_run(number, 1, "", Plan(refusals=refusals))


def test_at_once_and_then_after_growing_pauses(bench: Bench) -> None:
    ran()
    bench.look()
    bench.look()
    bench.clock.run(200)
    assert bench.asked == [0, 5, 15, 35, 75, 135, 195]


def test_what_is_new_is_asked_for_at_once(bench: Bench) -> None:
    ran()
    bench.look()
    bench.clock.run(100)
    bench.asked.clear()
    bench.world.container("kube-multus").bind(CNI, OLD)
    bench.look()
    assert bench.asked == [100]


def test_what_waits_for_a_person_is_asked_for_rarely_and_at_once_when_less_is_due(bench: Bench) -> None:
    bench.world.container("kube-multus").bind(CNI, OLD)
    ran(Refusal(name="breaker", because="b", ends="e", alarm=True))
    bench.look()
    bench.clock.run(299)
    assert bench.asked == [0]
    bench.world = world().host(CNI, NEW).container("kube-multus").bind(CNI, OLD).switch()
    bench.look()
    assert bench.asked == [0, 299], "what was in the way may be what is no longer due"


def test_a_breaker_that_may_end_by_itself_is_asked_for_each_minute(bench: Bench) -> None:
    """Kubelet may start at last what was stopped: then the others have their turn."""
    bench.world.act(name="kube-multus", outcome="not-cured", failure="sandbox-will-not-start")
    ran(Refusal(name="breaker", because="b", ends="e", alarm=True))
    bench.look()
    bench.clock.run(200)
    assert bench.asked == [0, 5, 15, 35, 75, 135, 195]


def test_what_ends_at_a_known_time_is_asked_for_then(bench: Bench) -> None:
    """A pause, a window, kubelet's back-off: a remediation each minute until then would be for nothing."""
    ran(Refusal(name="paused", because="b", ends="e", ends_at=time.time() + 5000))
    bench.look()
    bench.clock.run(299)
    assert bench.asked == [0]
    ran(Refusal(name="kubelet-back-off", because="b", ends="e", ends_at=time.time() + 100))
    bench.clock.run(2)
    bench.clock.run(97)
    assert bench.asked == [0, 300]
    ran(
        Refusal(name="kubelet-back-off", because="b", ends="e", ends_at=time.time() + 100),
        Refusal(name="runtime-not-answering", because="b", ends="e"),
    )
    bench.clock.run(2)
    assert len(bench.asked) == 3 and bench.clock.now == 400
    bench.clock.run(61)
    assert len(bench.asked) > 3, "the other may end at any time"


def test_nobody_takes_it_up(bench: Bench) -> None:
    bench.look()
    bench.clock.run(29)
    assert "alarm" not in bench.kinds()
    bench.clock.run(2)
    assert bench.kinds() == ["alarm"] and bench.asker.not_taken_up
    bench.clock.run(5)
    ran()
    bench.clock.run(32)
    assert not bench.asker.not_taken_up, "the next request was taken up"


def test_a_long_remediation_is_no_reason_for_an_alarm(bench: Bench) -> None:
    """The one that is running began before the request and takes it up when it has ended."""
    ran(ended=False)
    bench.look()
    bench.clock.run(300)
    assert "alarm" not in bench.kinds()


def test_a_tree_without_the_product_is_told_at_once(bench: Bench) -> None:
    """DESIGN §4: a tree without the product makes the old watcher alarm."""
    bench.installed = False
    bench.look()
    bench.look()
    assert bench.kinds() == ["alarm", "asked"]


def test_the_place_for_requests_is_gone(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd makes the runtime directory anew with the next start."""

    def gone() -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(wanted, "ask", gone)
    bench.look()
    assert bench.gave_up == 1 and "failed" in bench.kinds()


def test_a_request_that_cannot_be_made_is_an_alarm_and_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watcher that ends for it is one restart later where it was, and blind in between."""
    real, tries = wanted.ask, []

    def denied() -> None:
        tries.append(bench.clock.now)
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(wanted, "ask", denied)
    bench.look()
    bench.clock.run(40)
    assert tries == [0, 5, 15, 35] and not bench.gave_up
    assert bench.kinds() == ["alarm"], "told once, and nothing is said to have been asked for"
    monkeypatch.setattr(wanted, "ask", real)
    bench.clock.run(40)
    assert bench.asked == [75] and not bench.gave_up
    monkeypatch.setattr(wanted, "ask", denied)
    bench.clock.run(8 * 60)
    assert bench.gave_up, "what lasts is systemd's to mend: it makes the place anew"


@pytest.mark.skipif(os.geteuid() != 0, reason="two users are needed")
def test_a_request_of_another_user_is_a_request(tmp_path: Path) -> None:
    """`resume` and `remediate` are root's, the watcher has a user of its own, in whose directory the file lies."""
    place = tmp_path / "run"
    place.mkdir()
    for folder in tmp_path.parents:
        if folder.stat().st_uid == 0 and "pytest-" in str(folder):
            folder.chmod(0o755)
    tmp_path.chmod(0o755)
    os.chown(place, 65534, 65534)
    path = str(place / "wanted")
    code = (
        "import os, sys\n"
        "from ostreewatchd.wanted import ask\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534); ask(sys.argv[1])"
    )

    def as_the_watcher() -> None:
        subprocess.run([sys.executable, "-c", code, path], cwd=ROOT, check=True, timeout=60)

    wanted.ask(path)
    as_the_watcher()
    assert os.stat(path).st_uid == 0
    os.unlink(path)
    as_the_watcher()
    wanted.ask(path)
    assert os.stat(path).st_uid == 65534


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_whatever_else_is_in_its_place_is_a_request(tmp_path: Path, make: Callable[[str], None]) -> None:
    """PathExists= asks no more, and what is removed before a remediation is removed whatever it is."""
    path = str(tmp_path / "wanted")
    make(path)
    wanted.ask(path)
    assert os.path.lexists(path)


def test_nothing_due_nothing_asked(bench: Bench) -> None:
    bench.world = world().host(CNI, NEW).container("a").bind(CNI, NEW).switch()
    bench.look()
    bench.clock.run(1000)
    assert not bench.asked and not bench.kinds()


def test_a_state_that_the_ledger_does_not_know_is_asked_for(bench: Bench) -> None:
    """So that the next switch has a predecessor there."""
    bench.world = world().host(CNI, NEW)
    bench.look()
    assert bench.asked == [0]


def test_a_link_in_the_requests_place_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "wanted"
    os.symlink("/nonexistent/elsewhere", path)
    wanted.ask(str(path))
    assert path.is_file() and not path.is_symlink()
    wanted.ask(str(path))
    assert path.read_bytes() == b""


def test_a_ledger_that_cannot_be_read_is_repaired_before_it_is_needed(bench: Bench) -> None:
    """Only a remediation can set it aside, and the next switch needs to know the state before it."""
    bench.world = world().history(problem="file is not a database")
    bench.look()
    assert bench.asked == [0.0]
    bench.clock.run(600.0)
    assert len(bench.asked) > 5
    bench.world = world().switch()
    bench.look()
    asked = len(bench.asked)
    bench.clock.run(600.0)
    assert len(bench.asked) == asked


def test_a_request_whose_outcome_was_told_already_is_not_told(bench: Bench) -> None:
    """Under a pause, or a refusal that stands, a remediation says nothing once more: nor does who asks for it."""
    bench.world = stale().switch().pause()
    bench.look()
    assert len(bench.asked) == 1 and bench.kinds() == []
    bench.world = stale().switch()
    snapshot = bench.world.snapshot()
    subject = next(one.subject for one in judge(snapshot) if one.owed)
    refusals = (
        Refusal(name="owner-unknown", because="b", ends="e", subject=subject),
        Refusal(name="outside-window", because="b", ends="e"),
    )
    for refusal in refusals:
        ran(refusal)
        bench.asker._done()
        bench.look()
        assert bench.kinds() == [], refusal
    ran(
        Refusal(
            name="owner-unknown", because="b", ends="e", subject=msgspec.structs.replace(subject, container_id="x")
        )
    )
    bench.asker._done()
    bench.look()
    assert len(bench.asked) == 4 and bench.kinds() == ["asked"], "it has refused another"


def test_what_only_the_runtime_can_tell_is_asked_for_once(bench: Bench) -> None:
    """And again when the answer may be another one, or while what was found is refused."""
    bench.world = world().switch().part(cni_readers=(READER,), daemons=(KUBELET,)).not_asked()

    bench.look()
    assert len(bench.asked) == 1
    ran()
    bench.clock.run(600)
    bench.look()
    assert len(bench.asked) == 1
    bench.world.part(cni_readers=(msgspec.structs.replace(READER, network="another"),))
    bench.look()
    assert len(bench.asked) == 2
    ran(Refusal(name="x", because="b", ends="e", subject=Subject(kind="unit", unit="u"), alarm=True))
    bench.clock.run(700)
    assert len(bench.asked) > 2


def test_a_live_apply_that_made_no_mount_is_looked_into_once(bench: Bench) -> None:
    """A second one changes what lies below the same overlay: whether runtime and kubelet have taken it over is for
    the remediation to find out, which may ask them."""
    runtime = Daemon(kind="runtime", name="crio", pid=800, mount_namespace=1, unit="crio.service")

    def applied(commit: str) -> World:
        ostree = Ostree(is_live=True, live_commit=commit)
        return world().switch().not_asked().part(daemons=(runtime,), ostree=ostree)

    bench.world = applied("c" * 64)
    bench.look()
    assert len(bench.asked) == 1
    with Ledger(ledger.PATH) as book:
        book.end_run(book.begin_run(), 0, "", Plan())
    bench.clock.run(600)
    assert len(bench.asked) == 1, "it was looked into"
    bench.world = applied("d" * 64)
    bench.look()
    assert len(bench.asked) == 2

# SPDX-License-Identifier: Apache-2.0
"""`pause` and `resume`: bounded, said wherever somebody looks, and noticed at once."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ostreewatchd import wanted
from ostreewatchd.cli import main, pause, resume
from ostreewatchd.judge import judge
from ostreewatchd.ledger import pausing
from ostreewatchd.model import Pause, Settings
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal
from ostreewatchd.report.notify import Notifier
from ostreewatchd.watch.orders import OrderWatch
from ostreewatchd.watcher import Watcher
from tests.fakes.journald import FakeJournal
from tests.unit.worlds import stale


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, FakeJournal]]:
    folder = tmp_path / "state"
    with FakeJournal(tmp_path / "journal") as fake:
        for module in (pause, resume):
            monkeypatch.setattr(module, "_DIRECTORY", str(folder))
            monkeypatch.setattr(module, "Journal", lambda program: Journal(program, fake.path))
        monkeypatch.setattr(pause, "_boot", lambda: "b1")
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(wanted.ask, "__defaults__", (str(tmp_path / "wanted"),))
        yield folder, fake


def test_pause_and_resume(state: tuple[Path, FakeJournal], capsys: pytest.CaptureFixture[str]) -> None:
    folder, fake = state
    assert main(["pause", "--for", "2h", "--why", " a demo\x1b[2J "]) == 0
    order = pausing.read(str(folder))
    assert order is not None and (order.seconds, order.boot_id, order.problem) == (7200.0, "b1", "") and order.who
    out = capsys.readouterr().out
    assert out.startswith("paused until ") and "a demo" in out and "\x1b" not in out
    (entry,) = fake.entries()
    assert entry["OSTREEWATCHD_KIND"] == b"paused" and entry["OSTREEWATCHD_WHO"].decode() == order.who
    assert main(["pause", "--for", "90min", "--why", "longer"]) == 0, "the last order counts"
    again = pausing.read(str(folder))
    assert again is not None and again.why == "longer" and again.seconds == 5400.0
    fake.entries()
    assert main(["resume"]) == 0 and pausing.read(str(folder)) is None
    assert [entry["OSTREEWATCHD_KIND"] for entry in fake.entries()] == [b"resumed"]
    assert (folder.parent / "wanted").exists(), "what is owed is looked at now"
    assert main(["resume"]) == 0 and "not paused" in capsys.readouterr().out and not fake.entries()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--why", "x"],
        ["--for", "2h"],
        ["--for", "2h", "--why", " "],
        ["--for", "59s", "--why", "x"],
        ["--for", "8d", "--why", "x"],
        ["--for", "nan", "--why", "x"],
        ["--for", "-2h", "--why", "x"],
        ["--for", "soon", "--why", "x"],
    ],
)
def test_a_pause_without_end_or_reason_is_none(state: tuple[Path, FakeJournal], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["pause", *arguments])
    assert ended.value.code == 2 and not state[0].exists()


def test_what_cannot_be_written_is_told_as_it_is(
    state: tuple[Path, FakeJournal], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for part in ("write", "remove"):
        monkeypatch.setattr(pausing, part, read_only)
    for verb in (["pause", "--for", "2h", "--why", "x"], ["resume"]):
        assert main(verb) == 3
        said = capsys.readouterr().err
        assert "Read-only file system" in said and "needs root" not in said, "root it was already"
    assert not state[1].entries()


def test_who_is_not_root_is_told_that_first(
    state: tuple[Path, FakeJournal], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for verb in (["pause", "--for", "2h", "--why", "x"], ["resume"], ["remediate"]):
        assert main(verb) == 3
        assert capsys.readouterr().err == f"ostreewatchctl: {verb[0]} needs root\n"
    assert not state[0].exists() and not state[1].entries()


def test_status_of_the_watcher_says_so() -> None:
    snapshot = stale().pause().snapshot()
    text = words.summary(snapshot, judge(snapshot))
    assert text.startswith("paused until ") and "ops" in text and "1 owed" in text
    order = snapshot.pause
    assert order is not None
    wordy = stale().history(pause=msgspec.structs.replace(order, why="y" * 500)).snapshot()
    assert "1 owed" in words.summary(wordy, judge(wordy))[:500], "STATUS= has an end"
    over = stale().pause(seconds=59.0).snapshot()
    assert over.pause is None and "paused" not in words.summary(over, judge(over))


def test_the_watcher_is_woken_by_the_order_and_by_its_end(tmp_path: Path) -> None:
    folder = tmp_path / "state"

    async def watch() -> list[str]:
        loop = asyncio.get_running_loop()
        woken: list[str] = []
        said = asyncio.Event()

        def changed() -> None:
            woken.append("woken")
            said.set()

        watch = OrderWatch(loop, changed, str(folder))
        folder.mkdir()
        watch.arm()
        watch.arm()
        (folder / "ledger.db-journal").touch()
        os.unlink(folder / "ledger.db-journal")
        await asyncio.sleep(0.05)
        assert not woken, "the ledger's own files wake nobody"
        for act in (lambda: pausing.write(str(folder), Pause(seconds=60.0)), lambda: pausing.remove(str(folder))):
            said.clear()
            act()
            await asyncio.wait_for(said.wait(), 5)
        watch.close()
        return woken

    assert asyncio.run(watch()) == ["woken", "woken"]


def test_the_watcher_tells_of_it_once_and_of_its_end(tmp_path: Path) -> None:
    async def tell(fake: FakeJournal) -> list[str]:
        journal = Journal("ostreewatchd", fake.path)
        watcher = Watcher(asyncio.get_running_loop(), journal, Notifier({}), Settings())
        for built in (stale(), stale().pause(), stale().pause(), stale().pause(ago=5.0), stale(), stale()):
            watcher._report(built.snapshot(), ())
        watcher.close()
        journal.close()
        return [entry["OSTREEWATCHD_KIND"].decode() for entry in fake.entries()]

    with FakeJournal(tmp_path / "journal") as fake:
        kinds = asyncio.run(tell(fake))
    assert [kind for kind in kinds if kind in ("paused", "resumed")] == ["paused", "paused", "resumed"]

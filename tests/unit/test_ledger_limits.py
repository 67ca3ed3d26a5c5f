# SPDX-License-Identifier: Apache-2.0
"""The ledger at its limits: full or read-only filesystems, other versions' files, and what no limit may take away."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

import msgspec
import pytest

from ostreewatchd import ledger
from ostreewatchd.ledger import Clock, Ledger, LedgerError, rows, writing
from ostreewatchd.model import History, Plan, Refusal
from tests.unit.test_ledger import STEP, SUBJECT, filled

NEWER = rows.VERSION + 1


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


def change(path: str, *statements: str) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


# --- what no limit takes away -------------------------------------------------------------------------------------


def test_an_act_without_outcome_is_never_pruned(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 6: its container may have been stopped, and nobody has looked yet."""
    monkeypatch.setattr(writing, "_KEPT_ACTS", 10)
    monkeypatch.setattr(writing, "_KEPT_SWITCHES", 3)
    with Ledger(path) as book:
        book._db.execute("PRAGMA synchronous = OFF")
        open_act = book.intend(book.record_switch("first", "b", "d", 5.0), STEP)
        for number in range(300):
            book.conclude(book.intend(book.record_switch(f"f{number}", "b", "d", 5.0), STEP), "cured", "")
        count = {name: book._db.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in ("act", "switch")}
    assert count == {"act": 11, "switch": 4}
    assert ledger.read(path).acts[0].id == open_act and not ledger.read(path).acts[0].outcome


def test_all_restarts_of_the_current_switch_stay_and_are_read(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 6: with one of them forgotten its subject would be restarted again. What stopped nothing may go."""
    monkeypatch.setattr(writing, "_KEPT_ACTS", 10)
    with Ledger(path) as book:
        book._db.execute("PRAGMA synchronous = OFF")
        switch = book.record_switch("f", "b", "d", 5.0)
        for number in range(300):
            outcome = "cured" if number < 250 else "not-needed"
            book.conclude(book.intend(switch, STEP), outcome, "")
    acts = ledger.read(path).acts
    assert [act.outcome for act in acts].count("cured") == 250
    assert [act.outcome for act in acts].count("not-needed") <= 10
    assert [act.id for act in acts] == sorted(act.id for act in acts)


def test_more_than_can_be_read_is_no_act(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invariant 8: bounded; and a part of them is no history."""
    monkeypatch.setattr(rows, "_MOST_ACTS", 3)
    filled(path, acts=2)
    assert not ledger.read(path).problem
    filled(path, acts=2)
    assert "more than 3 acts" in ledger.read(path).problem
    with pytest.raises(LedgerError, match="more than 3 acts"):
        Ledger(path)
    assert not list(Path(path).parent.glob("*.corrupt-*")), "it is not corrupt"


def test_an_act_knows_its_moment_in_the_clock_that_nobody_sets(path: str) -> None:
    with Ledger(path, "boot-1", Clock(lambda: 1000.0, lambda: 7.5)) as book:
        book.intend(book.record_switch("f", "boot-1", "d", 7.0), STEP)
    (act,) = ledger.read(path).acts
    assert (act.intent_at, act.intent_boottime, act.boot_id) == (1000.0, 7.5, "boot-1")


def test_how_a_restart_failed_is_kept(path: str) -> None:
    with Ledger(path) as book:
        book.conclude(book.intend(book.record_switch("f", "b", "d", 5.0), STEP), "not-cured", "p", "still-stale")
    assert ledger.read(path).acts[0].failure == "still-stale"


# --- cannot be written --------------------------------------------------------------------------------------------


def test_a_full_filesystem_is_no_act(path: str) -> None:
    """SQLite's own answer where no page is left; what was written before stays."""
    filled(path)
    with Ledger(path) as book:
        pages = book._db.execute("PRAGMA page_count").fetchone()[0]
        book._db.execute(f"PRAGMA max_page_count = {pages}")
        switch = book.record_switch("f", "boot", "d", 5.0)
        with pytest.raises(LedgerError, match="full.*has room"):
            for _ in range(100):
                book.intend(switch, msgspec.structs.replace(STEP, because="x" * 1000))
        acts = len(book.history().acts)
    assert len(ledger.read(path).acts) == acts


def test_a_file_that_may_not_be_changed_is_no_act_and_is_still_read(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a filesystem that became read-only, of which the last step to open it is the first to hear. Nothing is
    left open: it would keep the filesystem busy."""
    filled(path)

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "chmod", refuse)
    with pytest.raises(LedgerError, match="Read-only file system. Check that the filesystem is writable"):
        Ledger(path)
    held = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    assert path not in held
    assert len(ledger.read(path).acts) == 4


# --- other versions -----------------------------------------------------------------------------------------------


def newer(path: str) -> None:
    """What a later version might have written: a kind, an outcome and a step without a name here."""
    subject = msgspec.to_builtins(SUBJECT)
    subject.update(kind="virtual-machine", since="9.9")
    change(
        path,
        f"UPDATE act SET subject = '{msgspec.json.encode(subject).decode()}', step = 'evict-pod',"
        " outcome = 'half-cured', proof = 'p' WHERE id = 2",
        """UPDATE refusal SET refusal = '{"name": "moon", "because": "b", "ends": "e", "subject": {"kind": "x"}}'""",
        f"PRAGMA user_version = {NEWER}",
    )


def test_a_newer_versions_words_are_no_damage(path: str) -> None:
    """It is never set aside, and what was done under another name counts as done."""
    filled(path)
    newer(path)
    seen = ledger.read(path)
    assert not seen.problem and len(seen.acts) == 4
    act = seen.acts[1]
    assert act.subject.key == SUBJECT.key and act.step == "evict-pod"
    assert act.outcome == "abandoned" and "half-cured" in act.proof
    assert msgspec.json.decode(msgspec.json.encode(seen), type=History) == seen, "a Snapshot with it can be saved"
    run = ledger.last_run(path)
    assert run is not None and [one.name for one in run.refusals] == ["moon"]
    with Ledger(path) as book:
        assert not book.set_aside and book.history() == seen
        book.end_run(book.begin_run(), 1, "", Plan(refusals=(Refusal(name="a", because="b", ends="c"),)))
        assert rows.version(book._db) == NEWER


def test_the_same_words_in_a_file_of_this_version_are_damage(path: str) -> None:
    filled(path)
    newer(path)
    change(path, f"PRAGMA user_version = {rows.VERSION}")
    assert ledger.read(path).problem
    with Ledger(path) as book:
        assert book.set_aside and not book.history().acts


def test_a_newer_versions_file_that_cannot_be_read_is_kept_and_no_act(path: str) -> None:
    """Nothing is destroyed that its own version may read."""
    filled(path)
    change(path, "UPDATE act SET subject = '[7]' WHERE id = 2", f"PRAGMA user_version = {NEWER}")
    before = Path(path).read_bytes()
    with pytest.raises(LedgerError, match="Install the version that wrote it"):
        Ledger(path)
    assert Path(path).read_bytes() == before and os.listdir(Path(path).parent) == ["ledger.db"]


def test_a_reader_of_an_older_versions_file(path: str) -> None:
    """Nobody with write permission has opened it yet: the later columns are not there."""
    filled(path)
    for name in ("intent_boottime", "boot_id", "failure"):
        change(path, f"ALTER TABLE act DROP COLUMN {name}")
    change(path, "PRAGMA user_version = 1")
    seen = ledger.read(path)
    assert not seen.problem and len(seen.acts) == 4 and seen.acts[0].boot_id == ""
    with Ledger(path) as book:
        assert not book.set_aside and len(book.history().acts) == 4 and rows.version(book._db) == rows.VERSION


def test_an_older_version_goes_on_with_this_ones_file(path: str) -> None:
    """The statements of version 1, as they were released: it reads and writes, and this one reads that."""
    filled(path)
    change(
        path,
        "INSERT INTO act (switch_id, step, subject, because, intent_at)"
        " SELECT switch_id, step, subject, because, 9.0 FROM act WHERE id = 1",
        "UPDATE act SET outcome = 'cured', outcome_at = 10.0, proof = 'p' WHERE id = 5",
        "INSERT INTO run (started_at) VALUES (11.0)",
    )
    act = ledger.read(path).acts[-1]
    assert (act.id, act.outcome, act.boot_id, act.intent_boottime) == (5, "cured", "", 0.0)

# SPDX-License-Identifier: Apache-2.0
"""The ledger on disk: durable, set aside when corrupt, shared by versions, readable without write permission."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ostreewatchd import ledger
from ostreewatchd.ledger import Ledger, LedgerError
from ostreewatchd.ledger import file as ledger_file
from ostreewatchd.model import History, Plan, Refusal, Step, Subject, Switch
from tests.unit.sources import ROOT

SUBJECT = Subject(
    namespace="kube-system", pod="calico-node-x1", pod_uid="u1", container="calico-node", container_id="c" * 64
)
STEP = Step(
    kind="stop-container", subject=SUBJECT, sandbox_id="s" * 64, attempt=0, grace=0, because="it is stale",
    smaller="", larger="",
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "ledger.db")


def filled(path: str, acts: int = 3) -> Switch:
    """A ledger with a switch, acts with an outcome, one without, and a run."""
    with Ledger(path) as book:
        switch = book.record_switch("f", "boot", "debian-x.0", 5.0)
        for _ in range(acts):
            book.conclude(book.intend(switch, STEP), "cured", "proof")
        book.intend(switch, STEP)
        refusal = Refusal(name="breaker", because="b", ends="e", subject=SUBJECT, alarm=True)
        book.end_run(book.begin_run(), 1, "one owed", Plan(refusals=(refusal,)))
    return switch


def test_what_was_written_is_read(path: str) -> None:
    switch = filled(path)
    history = ledger.read(path)
    assert history.switch == switch and not history.problem and not history.set_aside
    assert [act.outcome for act in history.acts] == ["cured", "cured", "cured", ""]
    assert [act.id for act in history.acts] == [1, 2, 3, 4], "newest last"
    last = history.acts[-1]
    assert (last.switch_id, last.step, last.subject, last.because) == (
        switch.id, "stop-container", SUBJECT, "it is stale"
    )  # fmt: skip
    assert last.outcome_at is None and last.intent_at > 0
    with Ledger(path) as book:
        assert book.history() == history


def test_a_run_and_its_refusals(path: str) -> None:
    assert ledger.last_run(path) is None
    filled(path)
    run = ledger.last_run(path)
    assert run is not None and (run.id, run.status, run.summary) == (1, 1, "one owed")
    (refusal,) = run.refusals
    assert (refusal.name, refusal.alarm, str(refusal.subject)) == ("breaker", True, str(SUBJECT))
    with Ledger(path) as book:
        number = book.begin_run()
    assert ledger.newest_run(path) == number == 2
    last = ledger.last_run(path)
    assert last is not None and last.id == 1, "the refusals of a run that has ended, not under one that has not"


def test_a_refusal_is_news_once_an_hour(path: str) -> None:
    """A refusal that goes on is not repeated with each run."""
    one = Refusal(name="mode-observe", because="b", ends="e", subject=SUBJECT)
    other = Refusal(name="breaker", because="b", ends="e", alarm=True)
    with Ledger(path) as book:
        assert book.end_run(book.begin_run(), 1, "", Plan(refusals=(one,))) == (one,)
        assert book.end_run(book.begin_run(), 1, "", Plan(refusals=(one, other))) == (other,)
        book._db.execute("UPDATE refusal SET told_at = told_at - 3601 WHERE refusal LIKE '%mode-observe%'")
        assert book.end_run(book.begin_run(), 1, "", Plan(refusals=(one, other))) == (one,)
        assert book.end_run(book.begin_run(), 0, "", Plan()) == ()
        assert book.end_run(book.begin_run(), 1, "", Plan(refusals=(one,))) == (one,), "it had ended"


def test_an_older_products_ledger_gets_the_new_columns(path: str) -> None:
    """It is no damage: what an older product wrote is still known."""
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE switch (id TEXT PRIMARY KEY, number INTEGER, fingerprint TEXT, boot_id TEXT,"
               " deployment TEXT, seen_at REAL)")  # fmt: skip
    db.execute("INSERT INTO switch VALUES ('old', 1, 'f', 'boot', 'd', 1.0)")
    db.commit()
    db.close()
    with Ledger(path) as book:
        assert not book.set_aside
        known = book.history().switch
        assert known is not None and (known.id, known.seen_boottime) == ("old", 0.0)


def test_a_switch_is_known_again_and_has_an_id_of_its_own(path: str) -> None:
    """DESIGN §2: to go back to an earlier state is a new switch."""
    with Ledger(path) as book:
        first = book.record_switch("f1", "boot", "a", 5.0)
        assert book.record_switch("f1", "boot", "a", 5.0) == first
        second = book.record_switch("f2", "boot", "b", 5.0)
        third = book.record_switch("f1", "boot", "a", 5.0)
    assert len({first.id, second.id, third.id}) == 3
    assert ledger.read(path).switch == third


def test_no_ledger_is_an_empty_history(path: str) -> None:
    assert ledger.read(path) == History()
    assert not os.path.exists(path), "reading makes no file"


def test_a_path_that_is_no_utf8_stops_no_act(path: str) -> None:
    """Invariant 12."""
    odd = "/etc/kubernetes/manifests/\udcff.yaml"
    with Ledger(path) as book:
        act = book.intend(book.record_switch("f", "b", "d", 5.0), msgspec.structs.replace(STEP, because=odd))
        book.conclude(act, "cured", odd)
        refusal = Refusal(name="n", because=odd, ends="e", subject=SUBJECT)
        book.end_run(book.begin_run(), 0, "s", Plan(refusals=(refusal,)))
    (past,) = ledger.read(path).acts
    assert past.because == past.proof == "/etc/kubernetes/manifests/\\udcff.yaml"


def test_a_write_is_all_or_nothing(path: str) -> None:
    filled(path)
    db = sqlite3.connect(path)
    db.execute("CREATE TRIGGER full BEFORE INSERT ON refusal BEGIN SELECT RAISE(FAIL, 'disk full'); END")
    db.commit()
    db.close()
    with Ledger(path) as book:
        run = book.begin_run()
        with pytest.raises(LedgerError, match="disk full"):
            book.end_run(run, 0, "s", Plan(refusals=(Refusal(name="n", because="b", ends="e"),)))
    db = sqlite3.connect(path)
    assert db.execute("SELECT ended_at FROM run WHERE id = ?", (run,)).fetchone() == (None,)
    assert db.execute("SELECT COUNT(*) FROM refusal").fetchone() == (1,), "the ones of before are still there"
    db.close()


def test_synchronous_is_full_and_more(path: str) -> None:
    """Invariant 6: the intent is on disk before the act; EXTRA (3) is FULL and syncs the directory too."""
    with Ledger(path) as book:
        assert book._db.execute("PRAGMA synchronous").fetchone() == (3,)
        assert book._db.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_an_intent_is_seen_by_others_at_once(path: str) -> None:
    """Committed when `intend` returns, and not when the ledger is closed."""
    with Ledger(path) as book:
        act = book.intend(book.record_switch("f", "b", "d", 5.0), STEP)
        assert [one.id for one in ledger.read(path).acts] == [act]
        book.conclude(act, "not-cured", "it did not come back")
        assert ledger.read(path).acts[0].proof == "it did not come back"


def test_an_intent_outlives_sigkill(path: str) -> None:
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2]);"
        "from tests.unit.test_ledger import *;"
        "book = Ledger(sys.argv[1]);"
        "book.intend(book.record_switch('f', 'b', 'd', 5.0), STEP); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, path, str(ROOT)], cwd=ROOT, timeout=60, check=False)
    assert done.returncode == -9
    (act,) = ledger.read(path).acts
    assert act.outcome == ""
    with Ledger(path) as book:
        assert book.set_aside == "" and book.history().acts == (act,)


def test_it_stays_small(path: str) -> None:
    """Invariant 8: what is kept is bounded, and what is read more so."""
    with Ledger(path) as book:
        switch = book.record_switch("f", "b", "d", 5.0)
        book._db.execute("PRAGMA synchronous = OFF")
        for number in range(1100):
            book.conclude(book.intend(switch, STEP), "cured", "")
            if number % 4 == 0:
                switch = book.record_switch(f"f{number}", "b", "d", 5.0)
                book.begin_run()
        count = {name: book._db.execute(f"SELECT COUNT(*) FROM {name}").fetchone()[0] for name in ("act", "switch")}
    assert count["act"] <= 1000 and count["switch"] <= 200
    acts = ledger.read(path).acts
    assert len(acts) <= 200 and acts[-1].id == 1100


# --- corrupt ------------------------------------------------------------------------------------------------------


def check_set_aside(path: str, before: bytes) -> None:
    """A Ledger opens whatever is there, and what it could not read is beside it, whole."""
    with Ledger(path) as book:
        history = book.history()
        if book.set_aside:
            assert Path(book.set_aside).read_bytes() == before
            assert book.set_aside in history.set_aside and history.acts == () and history.switch is None
        book.intend(book.record_switch("new", "b", "d", 5.0), STEP)
    assert ledger.read(path).acts[-1].outcome == ""


def test_a_file_that_is_no_database_is_set_aside(path: str) -> None:
    """Invariant 12."""
    Path(path).write_bytes(b"this is not a database, and long enough to be sure of it" * 100)
    assert "not a database" in ledger.read(path).problem
    check_set_aside(path, Path(path).read_bytes())
    with Ledger(path) as book:
        assert not book.set_aside and book.history().set_aside, "told until the end, done once"


@pytest.mark.parametrize("damage", ["subject = '{'", "subject = '[1]'", "because = CAST(x'ff' AS TEXT)"])
def test_a_value_that_cannot_be_read_is_corrupt_too(path: str, damage: str) -> None:
    """The quick check of SQLite sees nothing of it."""
    filled(path)
    db = sqlite3.connect(path)
    db.execute(f"UPDATE act SET {damage} WHERE id = 2")
    db.commit()
    db.close()
    assert ledger.read(path).problem
    with Ledger(path) as book:
        book.intend(book.record_switch("f2", "b", "d", 0.0), STEP)
        assert book.history().acts[-1].outcome == ""
        assert book.set_aside


def test_two_corrupt_ledgers_in_one_second(path: str) -> None:
    kept = set()
    for _ in range(3):
        Path(path).write_bytes(b"garbage!" * 1000)
        with Ledger(path) as book:
            kept.add(book.set_aside)
    assert len(kept) == 3 and all(os.path.exists(one) for one in kept)


def test_a_journal_of_the_corrupt_one_is_not_rolled_into_the_new_one(path: str) -> None:
    filled(path)
    whole = Path(path).read_bytes()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE act SET outcome = 'x'")
    journal = Path(path + "-journal").read_bytes()
    db.execute("ROLLBACK")
    db.close()
    Path(path).write_bytes(b"garbage!" * (len(whole) // 8))
    Path(path + "-journal").write_bytes(journal)
    with Ledger(path) as book:
        book.record_switch("f", "b", "d", 5.0)
        assert not book.history().acts or not book.set_aside
    assert not os.path.exists(path + "-journal") and not ledger.read(path).problem


def damaged(whole: bytes, dice: random.Random) -> Iterator[bytes]:
    for _ in range(20):
        yield whole[: dice.randrange(len(whole))]
    for _ in range(25):
        data = bytearray(whole)
        start = dice.randrange(len(whole))
        for offset in range(start, min(len(whole), start + dice.choice([1, 16, 512, 4096]))):
            data[offset] = dice.randrange(256)
        yield bytes(data)


@pytest.fixture
def in_memory(tmp_path: Path) -> Iterator[Path]:
    """A directory whose fsync costs nothing, where the machine has one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path) as name:
        yield Path(name)


def test_any_damage_is_survived(path: str, in_memory: Path) -> None:
    """Truncated or overwritten anywhere: it is opened, or set aside whole, or named as an error; never a crash."""
    filled(path, acts=60)
    whole = Path(path).read_bytes()
    aside = 0
    for number, data in enumerate(damaged(whole, random.Random(11))):
        victim = in_memory / f"victim-{number}.db"
        victim.write_bytes(data)
        assert isinstance(ledger.read(str(victim)), History)
        try:
            ledger.last_run(str(victim))
        except LedgerError as error:
            assert "Check that" in str(error) or "sets it aside" in str(error)
        try:
            check_set_aside(str(victim), data)
        except LedgerError as error:
            assert "Check that" in str(error) or "sets it aside" in str(error)
        aside += len(list(in_memory.glob(f"victim-{number}.db.corrupt-*")))
    assert aside >= 20


def test_an_interrupted_write_is_rolled_back(path: str, tmp_path: Path) -> None:
    """A hot journal: the reader, who may not write, says so; the writer rolls it back and goes on."""
    filled(path, acts=60)
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA cache_size = 1")
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE act SET outcome = 'half-written', because = hex(randomblob(3000))")
    copy = tmp_path / "copy.db"
    copy.write_bytes(Path(path).read_bytes())
    Path(f"{copy}-journal").write_bytes(Path(f"{path}-journal").read_bytes())
    db.execute("ROLLBACK")
    db.close()
    assert b"half-written" in copy.read_bytes(), "the test's own premise: pages were spilled"
    seen = ledger.read(str(copy))
    assert seen.problem or "half-written" not in [str(act.outcome) for act in seen.acts]
    with Ledger(str(copy)) as book:
        assert not book.set_aside
        assert {act.outcome for act in book.history().acts} == {"cured", ""}


# --- other versions, other users ----------------------------------------------------------------------------------


def test_a_newer_product_has_added_columns(path: str) -> None:
    """Columns are only ever added: this version reads and writes a newer one's file."""
    filled(path)
    db = sqlite3.connect(path)
    for table in ("switch", "act", "run", "refusal", "note"):
        db.execute(f"ALTER TABLE {table} ADD COLUMN later TEXT NOT NULL DEFAULT 'x'")
    db.execute("CREATE TABLE later (a)")
    db.execute("PRAGMA user_version = 7")
    db.commit()
    db.close()
    assert len(ledger.read(path).acts) == 4
    filled(path)
    with Ledger(path) as book:
        assert book.set_aside == "" and len(book.history().acts) == 8
        assert book.record_switch("f2", "b", "d", 5.0).fingerprint == "f2"
        assert book._db.execute("PRAGMA user_version").fetchone() == (7,)
    run = ledger.last_run(path)
    assert run is not None and [one.name for one in run.refusals] == ["breaker"]


def test_a_directory_where_nothing_can_be_written(tmp_path: Path) -> None:
    """Invariant 6: no ledger, no act. The error says what to look at."""
    with pytest.raises(LedgerError, match="Check that the filesystem is writable"):
        Ledger(str(tmp_path / "nowhere" / "ledger.db"))
    (tmp_path / "dir.db").mkdir()
    with pytest.raises(LedgerError):
        Ledger(str(tmp_path / "dir.db"))
    assert ledger.read(str(tmp_path / "dir.db")).problem


def test_a_ledger_that_is_held_is_no_act(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(path)
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.05)
    other = sqlite3.connect(path, isolation_level=None)
    with Ledger(path) as book:
        switch = book.record_switch("f", "b", "d", 5.0)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked"):
            book.intend(switch, STEP)
        assert len(ledger.read(path).acts) == 4, "a reader is not kept from reading"
    other.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_another_user_reads_it_without_writing(tmp_path: Path) -> None:
    """DESIGN §4: the watcher reads what root wrote; no WAL, which would need write permission."""
    folder = tmp_path / "lib"
    folder.mkdir(mode=0o755)
    path = str(folder / "ledger.db")
    switch = filled(path)
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2]);"
        "from ostreewatchd import ledger; os.chroot(sys.argv[3]); os.chdir('/'); os.setgid(65534); os.setuid(65534);"
        "h = ledger.read('/ledger.db'); r = ledger.last_run('/ledger.db');"
        "print(h.switch.id, len(h.acts), r.status, h.problem)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path, str(ROOT), str(folder)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.stdout.split() == [switch.id, "4", "1"], done.stderr
    assert sorted(os.listdir(folder)) == ["ledger.db"]


def test_everybody_may_read_it(path: str) -> None:
    old = os.umask(0o077)
    try:
        filled(path)
    finally:
        os.umask(old)
    assert os.stat(path).st_mode & 0o777 == 0o644


def test_the_root_stands_beside_the_fingerprint(path: str) -> None:
    """In the fingerprint it would make one more switch of what an older version recorded."""
    filled(path)
    old = ledger.read(path).switch
    assert old is not None and old.root == ""
    with Ledger(path) as book:
        assert book.record_switch("f", "boot", "debian-x.0", 6.0, "1:2") == old, "no switch: only the version is new"
        new = book.record_switch("g", "boot", "debian-y.0", 7.0, "3:4")
    history = ledger.read(path)
    assert history.switch == new and new.root == "3:4" and history.before == old


def test_an_older_versions_ledger_has_no_root(path: str) -> None:
    """The watcher reads it before any remediation has opened it."""
    switch = filled(path)
    db = sqlite3.connect(path)
    kept = ", ".join(row[1] for row in db.execute("PRAGMA table_info(switch)") if row[1] != "root")
    db.executescript(f"CREATE TABLE older AS SELECT {kept} FROM switch; DROP TABLE switch;"
                     "ALTER TABLE older RENAME TO switch")  # fmt: skip
    db.close()
    assert ledger.read(path).switch == switch and not ledger.read(path).problem


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_ledger_that_is_removed_while_it_is_open_is_none(path: str, how: str) -> None:
    """Invariant 6: no ledger, no act. What would be written is on no disk after a power cut, and an act that was
    begun is taken up without writing."""
    with Ledger(path) as book:
        switch = book.record_switch("after", "b", "d", 1.0)
        os.unlink(path)
        if how == "replaced":
            with Ledger(path) as other:
                other.begin_run()
        for use in (book.history, book.begin_run, lambda: book.intend(switch, STEP)):
            with pytest.raises(LedgerError, match="removed or replaced|readonly"):
                use()
    with Ledger(path) as book:
        assert book.history().switch is None

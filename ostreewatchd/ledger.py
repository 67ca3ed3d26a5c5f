# SPDX-License-Identifier: Apache-2.0
"""What was done and when, on disk: intent before an act, outcome after it. Written by the remediation alone.

SQLite with a rollback journal (not WAL: the watcher reads without write permission), each write synced with its
directory. Columns are only ever added, each with a default, so that an older and a newer product can share a file;
what an older file lacks is added when it is opened."""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable, NamedTuple, Optional, TypeVar

import msgspec

from ostreewatchd.model import History, PastAct, Plan, Refusal, Step, Subject, Switch

PATH = "/var/lib/ostreewatchd/ledger.db"
_VERSION = 1
_KEPT_ACTS = 1000
_KEPT_SWITCHES = 200
_READ_ACTS = 200
_BUSY_SECONDS = 5.0
_TOLD_AGAIN = 3600.0
"""Seconds after which a refusal that goes on is reported once more."""
_LONGEST_RUN = 15 * 60.0
"""Seconds; TimeoutStartSec= of the remediation's unit."""
_T = TypeVar("_T")

_TABLES = {
    "switch": (
        "id TEXT PRIMARY KEY",
        "number INTEGER NOT NULL DEFAULT 0",
        "fingerprint TEXT NOT NULL DEFAULT ''",
        "boot_id TEXT NOT NULL DEFAULT ''",
        "deployment TEXT NOT NULL DEFAULT ''",
        "seen_at REAL NOT NULL DEFAULT 0",
        "seen_boottime REAL NOT NULL DEFAULT 0",
    ),
    "act": (
        "id INTEGER PRIMARY KEY AUTOINCREMENT",
        "switch_id TEXT NOT NULL DEFAULT ''",
        "step TEXT NOT NULL DEFAULT ''",
        "subject TEXT NOT NULL DEFAULT '{}'",
        "because TEXT NOT NULL DEFAULT ''",
        "intent_at REAL NOT NULL DEFAULT 0",
        "outcome TEXT NOT NULL DEFAULT ''",
        "outcome_at REAL",
        "proof TEXT NOT NULL DEFAULT ''",
    ),
    "run": (
        "id INTEGER PRIMARY KEY AUTOINCREMENT",
        "started_at REAL NOT NULL DEFAULT 0",
        "ended_at REAL",
        "status INTEGER",
        "summary TEXT NOT NULL DEFAULT ''",
    ),
    "refusal": (
        "id INTEGER PRIMARY KEY AUTOINCREMENT",
        "run_id INTEGER NOT NULL DEFAULT 0",
        "told_at REAL NOT NULL DEFAULT 0",
        "refusal TEXT NOT NULL DEFAULT '{}'",
    ),
    "note": ("key TEXT PRIMARY KEY", "value TEXT NOT NULL DEFAULT ''"),
}


class LedgerError(Exception):
    """The ledger cannot be read or written: nothing may be done. Says what to do."""


class Run(NamedTuple):
    """One run of the remediation. `ended_at` and `status` are None while it runs, or if it was killed."""

    id: int
    started_at: float
    ended_at: Optional[float]
    status: Optional[int]
    summary: str
    refusals: tuple[Refusal, ...]


class Ledger:
    """The ledger, opened for writing; closed by `with`."""

    def __init__(self, path: str = PATH, boot_id: str = "") -> None:
        """Opens or creates it. A corrupt one is set aside beside it, and that is noted in the new one. Raises
        LedgerError."""
        self.path = path
        self.set_aside = ""
        try:
            self._db = _open(path)
        except sqlite3.DatabaseError as error:
            if not _is_corrupt(error):
                raise LedgerError(_hint(path, error)) from error
            try:
                self.set_aside = _put_aside(path)
                self._db = _open(path)
            except (sqlite3.Error, OSError) as again:
                raise LedgerError(_hint(path, again)) from again
            with self._written():
                self._db.executemany(
                    "INSERT OR REPLACE INTO note (key, value) VALUES (?, ?)",
                    [("set-aside", f"{self.set_aside} ({error})"), ("set-aside-boot", boot_id)],
                )
        except OSError as error:
            raise LedgerError(_hint(path, error)) from error

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @contextmanager
    def _written(self) -> Iterator[None]:
        """One durable transaction. Raises LedgerError."""
        try:
            with self._db:
                self._db.execute("BEGIN IMMEDIATE")
                yield
        except sqlite3.Error as error:
            raise LedgerError(_hint(self.path, error)) from error

    def history(self) -> History:
        """What `read` gives, over this connection. Raises LedgerError."""
        try:
            return _history(self._db)
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise LedgerError(_hint(self.path, error)) from error

    def record_switch(self, fingerprint: str, boot_id: str, deployment: str, boottime: float) -> Switch:
        """The newest switch if it has this fingerprint, else a new one with an id of its own. Raises
        LedgerError."""
        newest = self.history().switch
        if newest is not None and newest.fingerprint == fingerprint:
            return newest
        switch = Switch(
            id=uuid.uuid4().hex[:12],
            fingerprint=fingerprint,
            boot_id=boot_id,
            deployment=deployment,
            seen_at=time.time(),
            seen_boottime=boottime,
        )
        with self._written():
            self._db.execute(
                "INSERT INTO switch (id, fingerprint, boot_id, deployment, seen_at, seen_boottime, number)"
                " SELECT ?, ?, ?, ?, ?, ?, COALESCE(MAX(number), 0) + 1 FROM switch",
                (switch.id, fingerprint, boot_id, deployment, switch.seen_at, boottime),
            )
            self._db.execute(
                "DELETE FROM switch WHERE number <= (SELECT MAX(number) FROM switch) - ?", (_KEPT_SWITCHES,)
            )
        return switch

    def intend(self, switch: Switch, step: Step) -> int:
        """Write the intent, durably, and return its id. Raises LedgerError: then the act must not be done."""
        with self._written():
            cursor = self._db.execute(
                "INSERT INTO act (switch_id, step, subject, because, intent_at) VALUES (?, ?, ?, ?, ?)",
                (switch.id, step.kind, _json(step.subject), _text(step.because), time.time()),
            )
            act = cursor.lastrowid
            self._db.execute("DELETE FROM act WHERE id <= (SELECT MAX(id) FROM act) - ?", (_KEPT_ACTS,))
        if act is None:
            raise LedgerError(f"{self.path}: the intent was not stored")
        return act

    def conclude(self, act: int, outcome: str, proof: str) -> None:
        """Write how an act ended. Raises LedgerError."""
        with self._written():
            self._db.execute(
                "UPDATE act SET outcome = ?, outcome_at = ?, proof = ? WHERE id = ?",
                (outcome, time.time(), _text(proof), act),
            )

    def begin_run(self) -> int:
        """Raises LedgerError."""
        with self._written():
            cursor = self._db.execute("INSERT INTO run (started_at) VALUES (?)", (time.time(),))
            self._db.execute("DELETE FROM run WHERE id <= (SELECT MAX(id) FROM run) - ?", (_KEPT_ACTS,))
        return int(cursor.lastrowid or 0)

    def end_run(self, run: int, status: int, summary: str, plan: Plan) -> tuple[Refusal, ...]:
        """Write how a run ended and what it refused; the refusals that are new since the run before, or have
        not been told for an hour. Raises LedgerError."""
        now = time.time()
        told: list[tuple[int, float, str]] = []
        news = []
        with self._written():
            before = dict(self._db.execute("SELECT refusal, told_at FROM refusal").fetchall())
            for refusal in plan.refusals:
                text = _json(refusal)
                told_at = before.get(text, 0.0)
                if not 0 <= now - told_at < _TOLD_AGAIN:
                    news.append(refusal)
                    told_at = now
                told.append((run, told_at, text))
            self._db.execute(
                "UPDATE run SET ended_at = ?, status = ?, summary = ? WHERE id = ?", (now, status, summary, run)
            )
            self._db.execute("DELETE FROM refusal")
            self._db.executemany("INSERT INTO refusal (run_id, told_at, refusal) VALUES (?, ?, ?)", told)
        return tuple(news)


def read(path: str = PATH) -> History:
    """The history, without writing and without waiting for long. A ledger that is not there is an empty one;
    one that cannot be read is `problem`."""
    try:
        return _read(path, _history)
    except FileNotFoundError:
        return History()
    except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
        return History(problem=_hint(path, error))


def last_run(path: str = PATH) -> Optional[Run]:
    """The newest run that has ended, with its refusals, or the one that runs if none has; None if there is none.
    Raises LedgerError."""

    def query(db: sqlite3.Connection) -> Optional[Run]:
        row = db.execute(
            "SELECT id, started_at, ended_at, status, summary FROM run ORDER BY ended_at IS NULL, id DESC LIMIT 1"
        ).fetchone()
        if row is None:
            return None
        refusals = db.execute("SELECT refusal FROM refusal WHERE run_id = ? LIMIT 1000", (row[0],)).fetchall()
        decoded = tuple(msgspec.json.decode(text, type=Refusal) for (text,) in refusals)
        return Run(row[0], row[1], row[2], row[3], row[4], decoded)

    try:
        return _read(path, query)
    except FileNotFoundError:
        return None
    except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
        raise LedgerError(_hint(path, error)) from error


def newest_run(path: str = PATH) -> int:
    """The number of the newest run, ended or not; 0 where there is none or the ledger cannot be read."""
    try:
        return _read(path, lambda db: int(db.execute("SELECT COALESCE(MAX(id), 0) FROM run").fetchone()[0]))
    except (OSError, sqlite3.Error):
        return 0


def is_running(path: str = PATH) -> bool:
    """Whether the newest run has not ended, and is not so old that it must have been killed."""
    try:
        row = _read(path, lambda db: db.execute("SELECT started_at, ended_at FROM run ORDER BY id DESC").fetchone())
    except (OSError, sqlite3.Error):
        return False
    return row is not None and row[1] is None and 0 <= time.time() - row[0] < _LONGEST_RUN


def _text(text: str) -> str:
    """What SQLite can store: a path may have bytes that are no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _json(thing: object) -> str:
    builtin = msgspec.to_builtins(thing)
    return msgspec.json.encode(_texts(builtin), order="deterministic").decode()


def _texts(thing: object) -> object:
    if isinstance(thing, dict):
        return {key: _texts(value) for key, value in thing.items()}
    return _text(thing) if isinstance(thing, str) else thing


def _read(path: str, query: Callable[[sqlite3.Connection], _T]) -> _T:
    os.stat(path)
    db = sqlite3.connect(f"file:{path.replace('?', '%3f')}?mode=ro", uri=True, timeout=1.0)
    try:
        return query(db)
    finally:
        db.close()


def _open(path: str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = DELETE")
        # EXTRA is FULL and syncs the directory too when a transaction's journal is removed.
        db.execute("PRAGMA synchronous = EXTRA")
        if db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("database disk image is malformed")
        for table, columns in _TABLES.items():
            db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)})")
            present = {row[1] for row in db.execute(f"PRAGMA table_info({table})")}
            for column in columns:
                if column.partition(" ")[0] not in present:
                    db.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
        if db.execute("PRAGMA user_version").fetchone()[0] < _VERSION:
            db.execute(f"PRAGMA user_version = {_VERSION}")
        _readable(db)
    except BaseException:
        db.close()
        raise
    os.chmod(path, 0o644)
    return db


def _readable(db: sqlite3.Connection) -> None:
    """What the quick check does not see: values that cannot be read. Raises DatabaseError."""
    try:
        _history(db)
    except msgspec.MsgspecError as error:
        raise sqlite3.DatabaseError(f"malformed value: {error}") from error


def _is_corrupt(error: sqlite3.DatabaseError) -> bool:
    return any(sign in str(error) for sign in ("malformed", "not a database", "Could not decode"))


def _put_aside(path: str) -> str:
    """Rename the corrupt ledger (and its journal: a new ledger must not roll it back)."""
    stem = f"{path}.corrupt-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    aside, number = stem, 0
    while os.path.lexists(aside):
        number += 1
        aside = f"{stem}.{number}"
    os.rename(path, aside)
    if os.path.lexists(f"{path}-journal"):
        os.rename(f"{path}-journal", f"{aside}-journal")
    return aside


def _hint(path: str, error: Exception) -> str:
    if isinstance(error, sqlite3.DatabaseError) and _is_corrupt(error):
        return f"{path}: {error}. The next remediation sets it aside and begins an empty one"
    return f"{path}: {error}. Check that the filesystem is writable and has room (df, mount), and who owns it"


def _history(db: sqlite3.Connection) -> History:
    switches = [
        Switch(id=row[0], fingerprint=row[1], boot_id=row[2], deployment=row[3], seen_at=row[4], seen_boottime=row[5])
        for row in db.execute(
            "SELECT id, fingerprint, boot_id, deployment, seen_at, seen_boottime FROM switch"
            " ORDER BY number DESC LIMIT 2"
        )
    ]
    rows = db.execute(
        "SELECT id, switch_id, step, subject, because, intent_at, outcome, outcome_at, proof FROM act"
        " ORDER BY id DESC LIMIT ?",
        (_READ_ACTS,),
    ).fetchall()
    notes = dict(db.execute("SELECT key, value FROM note WHERE key IN ('set-aside', 'set-aside-boot')").fetchall())
    return History(
        set_aside=notes.get("set-aside", ""),
        set_aside_boot=notes.get("set-aside-boot", ""),
        switch=switches[0] if switches else None,
        before=switches[1] if len(switches) > 1 else None,
        acts=tuple(
            PastAct(
                id=row[0],
                switch_id=row[1],
                step=row[2],
                subject=msgspec.json.decode(row[3], type=Subject),
                because=row[4],
                intent_at=row[5],
                outcome=row[6],
                outcome_at=row[7],
                proof=row[8],
            )
            for row in reversed(rows)
        ),
    )

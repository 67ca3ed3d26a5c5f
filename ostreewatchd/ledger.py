# SPDX-License-Identifier: Apache-2.0
"""What was done and when, on disk: intent before an act, outcome after it. Written by the remediation alone.

SQLite with `synchronous=FULL` and a rollback journal (not WAL: the watcher reads without write permission).
Columns are only ever added, so that an older and a newer product can share a file."""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable, Optional, TypeVar

from ostreewatchd.model import History, PastAct, Plan, Refusal, Step, Subject, Switch

PATH = "/var/lib/ostreewatchd/ledger.db"
_VERSION = 1
_KEPT_ACTS = 1000
_KEPT_SWITCHES = 200
_READ_ACTS = 200
_BUSY_SECONDS = 5.0
_T = TypeVar("_T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS switch (
    id TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, boot_id TEXT NOT NULL, deployment TEXT NOT NULL,
    seen_at REAL NOT NULL, number INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS act (
    id INTEGER PRIMARY KEY AUTOINCREMENT, switch_id TEXT NOT NULL, step TEXT NOT NULL, pod_uid TEXT NOT NULL,
    container TEXT NOT NULL, container_id TEXT NOT NULL, subject TEXT NOT NULL, because TEXT NOT NULL,
    intent_at REAL NOT NULL, outcome TEXT NOT NULL DEFAULT '', outcome_at REAL, proof TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS run (
    id INTEGER PRIMARY KEY AUTOINCREMENT, started_at REAL NOT NULL, ended_at REAL, status INTEGER,
    summary TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS refusal (
    run_id INTEGER NOT NULL, name TEXT NOT NULL, subject TEXT NOT NULL, because TEXT NOT NULL,
    ends TEXT NOT NULL, alarm INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS note (key TEXT PRIMARY KEY, value TEXT NOT NULL);
"""


class LedgerError(Exception):
    """The ledger cannot be written: nothing may be done. Says what to do."""


class Run:
    """One run of the remediation, as `status` and `ostreewatchctl remediate` show it."""

    def __init__(self, row: tuple[int, float, Optional[float], Optional[int], str], refusals: tuple[Refusal, ...]):
        self.id, self.started_at, self.ended_at, self.status, self.summary = row
        self.refusals = refusals


class Ledger:
    """The ledger, opened for writing; closed by `with`."""

    def __init__(self, path: str = PATH) -> None:
        """Opens or creates it. A corrupt one is set aside beside it, and that is noted in the new one. Raises
        LedgerError."""
        self.path = path
        self.set_aside = ""
        try:
            self._db = _open(path)
        except sqlite3.DatabaseError as error:
            if not _is_corrupt(error):
                raise LedgerError(_hint(path, error)) from error
            self.set_aside = _put_aside(path)
            try:
                self._db = _open(path)
                with self._written():
                    self._db.execute(
                        "INSERT OR REPLACE INTO note (key, value) VALUES ('set-aside', ?)",
                        (f"{self.set_aside} ({error})",),
                    )
            except sqlite3.Error as again:
                raise LedgerError(_hint(path, again)) from again
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
        except sqlite3.Error as error:
            raise LedgerError(_hint(self.path, error)) from error

    def record_switch(self, fingerprint: str, boot_id: str, deployment: str) -> Switch:
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
        )
        with self._written():
            self._db.execute(
                "INSERT INTO switch (id, fingerprint, boot_id, deployment, seen_at, number)"
                " SELECT ?, ?, ?, ?, ?, COALESCE(MAX(number), 0) + 1 FROM switch",
                (switch.id, fingerprint, boot_id, deployment, switch.seen_at),
            )
            self._db.execute(
                "DELETE FROM switch WHERE number <= (SELECT MAX(number) FROM switch) - ?", (_KEPT_SWITCHES,)
            )
        return switch

    def intend(self, switch: Switch, step: Step) -> int:
        """Write the intent, durably, and return its id. Raises LedgerError: then the act must not be done."""
        subject = step.subject
        with self._written():
            cursor = self._db.execute(
                "INSERT INTO act (switch_id, step, pod_uid, container, container_id, subject, because, intent_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (switch.id, step.kind, subject.pod_uid, subject.container, subject.container_id, _text(str(subject)),
                 _text(step.because), time.time()),
            )  # fmt: skip
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
        with self._written():
            cursor = self._db.execute("INSERT INTO run (started_at) VALUES (?)", (time.time(),))
            self._db.execute("DELETE FROM run WHERE id <= (SELECT MAX(id) FROM run) - ?", (_KEPT_ACTS,))
        return int(cursor.lastrowid or 0)

    def end_run(self, run: int, status: int, summary: str, plan: Plan) -> None:
        """Write how a run ended, and the refusals that it ended with."""
        with self._written():
            self._db.execute(
                "UPDATE run SET ended_at = ?, status = ?, summary = ? WHERE id = ?",
                (time.time(), status, summary, run),
            )
            self._db.execute("DELETE FROM refusal")
            self._db.executemany(
                "INSERT INTO refusal (run_id, name, subject, because, ends, alarm) VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (
                        run, one.name, _text(str(one.subject)) if one.subject else "", _text(one.because), one.ends,
                        one.alarm,
                    )
                    for one in plan.refusals
                ],
            )  # fmt: skip


def read(path: str = PATH) -> History:
    """The history, without writing and without waiting for long. A ledger that is not there is an empty one;
    one that cannot be read is `problem`."""
    try:
        return _read(path, _history)
    except FileNotFoundError:
        return History()
    except (OSError, sqlite3.Error) as error:
        return History(problem=_hint(path, error))


def last_run(path: str = PATH) -> Optional[Run]:
    """The newest run with its refusals; None if there is none. Raises LedgerError."""

    def query(db: sqlite3.Connection) -> Optional[Run]:
        row = db.execute("SELECT id, started_at, ended_at, status, summary FROM run ORDER BY id DESC").fetchone()
        if row is None:
            return None
        refusals = tuple(
            Refusal(name=name, because=because, ends=ends, alarm=bool(alarm), subject=_subject(subject))
            for name, subject, because, ends, alarm in db.execute(
                "SELECT name, subject, because, ends, alarm FROM refusal LIMIT 1000"
            )
        )
        return Run(row, refusals)

    try:
        return _read(path, query)
    except FileNotFoundError:
        return None
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(_hint(path, error)) from error


def _text(text: str) -> str:
    """What SQLite can store: a path may have bytes that are no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _subject(text: str) -> Optional[Subject]:
    parts = text.split("/")
    return Subject(namespace=parts[0], pod=parts[1], container=parts[2]) if len(parts) == 3 else None


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
        db.execute("PRAGMA synchronous = FULL")
        if db.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("database disk image is malformed")
        db.executescript(_SCHEMA)
        if db.execute("PRAGMA user_version").fetchone()[0] < _VERSION:
            db.execute(f"PRAGMA user_version = {_VERSION}")
        _history(db)  # What the check above does not see: values that cannot be read.
    except BaseException:
        db.close()
        raise
    os.chmod(path, 0o644)
    return db


def _is_corrupt(error: sqlite3.DatabaseError) -> bool:
    text = str(error)
    return any(sign in text for sign in ("malformed", "not a database", "no such column", "Could not decode"))


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
    return f"{path}: {error}. Check that the filesystem is writable and has room (df, mount), and who owns it"


def _newest_switch(db: sqlite3.Connection) -> Optional[Switch]:
    row = db.execute(
        "SELECT id, fingerprint, boot_id, deployment, seen_at FROM switch ORDER BY number DESC LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    return Switch(id=row[0], fingerprint=row[1], boot_id=row[2], deployment=row[3], seen_at=row[4])


def _history(db: sqlite3.Connection) -> History:
    rows = db.execute(
        "SELECT id, switch_id, step, pod_uid, container, container_id, subject, because, intent_at, outcome,"
        " outcome_at, proof FROM act ORDER BY id DESC LIMIT ?",
        (_READ_ACTS,),
    ).fetchall()
    note = db.execute("SELECT value FROM note WHERE key = 'set-aside'").fetchone()
    return History(
        set_aside=note[0] if note else "",
        switch=_newest_switch(db),
        acts=tuple(
            PastAct(
                id=row[0], switch_id=row[1], step=row[2], pod_uid=row[3], container=row[4], container_id=row[5],
                subject=row[6], because=row[7], intent_at=row[8], outcome=row[9], outcome_at=row[10], proof=row[11],
            )
            for row in reversed(rows)
        ),
    )  # fmt: skip

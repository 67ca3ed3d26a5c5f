# SPDX-License-Identifier: Apache-2.0
"""The ledger's file: its tables, how it is opened, and what is done with one that cannot be read.

SQLite with a rollback journal (not WAL: the watcher reads without write permission), each write synced with its
directory. Columns are only ever added, each with a default, so that an older and a newer product can share a file;
what an older file lacks is added when it is opened."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import Callable, TypeVar

import msgspec

from ostreewatchd.ledger import rows

PATH = "/var/lib/ostreewatchd/ledger.db"
BUSY_SECONDS = 5.0
"""How long another connection's transaction is waited for."""
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
        "root TEXT NOT NULL DEFAULT ''",
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
        "intent_boottime REAL NOT NULL DEFAULT 0",
        "boot_id TEXT NOT NULL DEFAULT ''",
        "failure TEXT NOT NULL DEFAULT ''",
        "invocation TEXT NOT NULL DEFAULT ''",
        "successor TEXT NOT NULL DEFAULT ''",
        "done_boottime REAL NOT NULL DEFAULT 0",
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
    "recovery": (
        "act_id INTEGER PRIMARY KEY",
        "before TEXT NOT NULL DEFAULT ''",
        "verdict TEXT NOT NULL DEFAULT ''",
        "why TEXT NOT NULL DEFAULT ''",
        "judged_at REAL NOT NULL DEFAULT 0",
        "late_verdict TEXT NOT NULL DEFAULT ''",
        "late_why TEXT NOT NULL DEFAULT ''",
        "late_at REAL NOT NULL DEFAULT 0",
    ),
    "note": ("key TEXT PRIMARY KEY", "value TEXT NOT NULL DEFAULT ''"),
}


class LedgerError(Exception):
    """The ledger cannot be read or written: nothing may be done. Says what to do."""


def open_or_create(path: str) -> sqlite3.Connection:
    """The ledger at `path`, for writing. Raises sqlite3.Error or OSError."""
    db = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
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
        if rows.version(db) < rows.VERSION:
            db.execute(f"PRAGMA user_version = {rows.VERSION}")
        _readable(db)
        os.chmod(path, 0o644)
    except BaseException:
        db.close()
        raise
    return db


def _readable(db: sqlite3.Connection) -> None:
    """What the quick check does not see: values that cannot be read. Raises DatabaseError."""
    try:
        rows.history(db)
    except msgspec.MsgspecError as error:
        if rows.version(db) > rows.VERSION:
            raise sqlite3.DatabaseError(f"a newer version's value cannot be read by this one: {error}") from error
        raise sqlite3.DatabaseError(f"malformed value: {error}") from error


def query(path: str, ask: Callable[[sqlite3.Connection], _T]) -> _T:
    """What `ask` finds, without writing and without waiting for long. Raises sqlite3.Error, OSError, MsgspecError."""
    os.stat(path)
    db = sqlite3.connect(f"file:{path.replace('?', '%3f')}?mode=ro", uri=True, timeout=1.0)
    try:
        return ask(db)
    finally:
        db.close()


def is_corrupt(error: sqlite3.DatabaseError) -> bool:
    return any(sign in str(error) for sign in ("malformed", "not a database", "Could not decode"))


def put_aside(path: str) -> str:
    """Rename the corrupt ledger (and its journal: a new ledger must not roll it back). Raises OSError."""
    stem = f"{path}.corrupt-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    aside, number = stem, 0
    while os.path.lexists(aside):
        number += 1
        aside = f"{stem}.{number}"
    os.rename(path, aside)
    if os.path.lexists(f"{path}-journal"):
        os.rename(f"{path}-journal", f"{aside}-journal")
    return aside


def hint(path: str, error: Exception) -> str:
    """What is wrong and what to do about it, in words."""
    if isinstance(error, sqlite3.DatabaseError) and is_corrupt(error):
        return f"{path}: {error}. The next remediation sets it aside and begins an empty one"
    if "newer version" in str(error):
        return f"{path}: {error}. Install the version that wrote it, or a later one"
    return f"{path}: {error}. Check that the filesystem is writable and has room (df, mount), and who owns it"

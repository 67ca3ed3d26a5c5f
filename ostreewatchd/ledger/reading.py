# SPDX-License-Identifier: Apache-2.0
"""Reads the ledger without write permission and without waiting for long."""

from __future__ import annotations

import os
import sqlite3
import time
from typing import NamedTuple, Optional

import msgspec

from ostreewatchd.ledger import rows
from ostreewatchd.ledger.file import PATH, LedgerError, hint, query
from ostreewatchd.ledger.pausing import with_pause
from ostreewatchd.model import History, Refusal

_LONGEST_RUN = 15 * 60.0
"""Seconds; TimeoutStartSec= of the remediation's unit."""


class Run(NamedTuple):
    """One run of the remediation. `ended_at` and `status` are None while it runs, or if it was killed."""

    id: int
    started_at: float
    ended_at: Optional[float]
    status: Optional[int]
    summary: str
    refusals: tuple[Refusal, ...]


def read(path: str = PATH) -> History:
    """The history, with the pause that lies beside it. A ledger that is not there is an empty one; one that cannot
    be read is `problem`."""
    try:
        found = query(path, rows.history)
    except FileNotFoundError:
        found = History()
    except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
        found = History(problem=hint(path, error))
    return with_pause(found, os.path.dirname(path))


def last_run(path: str = PATH) -> Optional[Run]:
    """The newest run that has ended, with its refusals, or the one that runs if none has; None if there is none.
    Raises LedgerError."""

    def ask(db: sqlite3.Connection) -> Optional[Run]:
        row = db.execute(
            "SELECT id, started_at, ended_at, status, summary FROM run ORDER BY ended_at IS NULL, id DESC LIMIT 1"
        ).fetchone()
        if row is None:
            return None
        newer = rows.version(db) > rows.VERSION
        refusals = db.execute("SELECT refusal FROM refusal WHERE run_id = ? LIMIT 1000", (row[0],)).fetchall()
        decoded = tuple(rows.refusal(text, newer) for (text,) in refusals)
        return Run(row[0], row[1], row[2], row[3], row[4], decoded)

    try:
        return query(path, ask)
    except FileNotFoundError:
        return None
    except (OSError, sqlite3.Error, msgspec.MsgspecError) as error:
        raise LedgerError(hint(path, error)) from error


def newest_run(path: str = PATH) -> int:
    """The number of the newest run, ended or not; 0 where there is none or the ledger cannot be read."""
    try:
        return query(path, lambda db: int(db.execute("SELECT COALESCE(MAX(id), 0) FROM run").fetchone()[0]))
    except (OSError, sqlite3.Error):
        return 0


def is_running(path: str = PATH) -> bool:
    """Whether the newest run has not ended, and is not so old that it must have been killed."""
    try:
        row = query(path, lambda db: db.execute("SELECT started_at, ended_at FROM run ORDER BY id DESC").fetchone())
    except (OSError, sqlite3.Error):
        return False
    return row is not None and row[1] is None and 0 <= time.time() - row[0] < _LONGEST_RUN

# SPDX-License-Identifier: Apache-2.0
"""Writes the ledger: each write is one durable transaction, and what cannot be written raises LedgerError."""

from __future__ import annotations

import os
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Callable, NamedTuple, Optional

import msgspec

from ostreewatchd.ledger import rows
from ostreewatchd.ledger.file import PATH, LedgerError, hint, is_corrupt, open_or_create, put_aside
from ostreewatchd.ledger.pausing import with_pause
from ostreewatchd.model import History, Plan, RecoveryVerdict, Refusal, Sample, Step, Switch

_KEPT_ACTS = 1000
_KEPT_RUNS = 1000
_KEPT_SWITCHES = 200
_TOLD_AGAIN = 3600.0
"""Seconds after which a refusal that goes on is reported once more."""


class Clock(NamedTuple):
    """Seconds since the epoch, for people; and of CLOCK_BOOTTIME, which nobody sets."""

    wall: Callable[[], float]
    boottime: Callable[[], float]


REAL_CLOCK = Clock(time.time, lambda: time.clock_gettime(time.CLOCK_BOOTTIME))


def _identity(path: str) -> tuple[int, int]:
    """Which file that is now; zeros: there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_dev, found.st_ino


class Ledger:
    """The ledger, opened for writing; closed by `with`."""

    def __init__(self, path: str = PATH, boot_id: str = "", clock: Clock = REAL_CLOCK) -> None:
        """Opens or creates it. A corrupt one is set aside beside it, and that is noted in the new one. Raises
        LedgerError."""
        self.path = path
        self.set_aside = ""
        self._boot_id = boot_id
        self._clock = clock
        try:
            self._db = open_or_create(path)
        except sqlite3.DatabaseError as error:
            if not is_corrupt(error):
                raise LedgerError(hint(path, error)) from error
            try:
                self.set_aside = put_aside(path)
                self._db = open_or_create(path)
            except (sqlite3.Error, OSError) as again:
                raise LedgerError(hint(path, again)) from again
            with self._written():
                self._db.executemany(
                    "INSERT OR REPLACE INTO note (key, value) VALUES (?, ?)",
                    [("set-aside", f"{self.set_aside} ({error})"), ("set-aside-boot", boot_id)],
                )
        except OSError as error:
            raise LedgerError(hint(path, error)) from error
        self._file = _identity(path)

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
            raise LedgerError(hint(self.path, error)) from error

    def history(self) -> History:
        """What `read` gives, over this connection. Raises LedgerError: also if the file that is open has no name any
        more. SQLite tells that only who writes (SQLITE_READONLY_DBMOVED), and to take up an act writes nothing."""
        try:
            if _identity(self.path) != self._file:
                raise LedgerError(
                    f"{self.path}: it was removed or replaced meanwhile. The next remediation opens it anew"
                )
            return with_pause(rows.history(self._db), os.path.dirname(self.path))
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            raise LedgerError(hint(self.path, error)) from error

    def record_switch(
        self, fingerprint: str, boot_id: str, deployment: str, boottime: float, root: str = ""
    ) -> Switch:
        """The newest switch if it has this fingerprint, else a new one with an id of its own. `root`: the identity
        of `/`. Raises LedgerError."""
        newest = self.history().switch
        if newest is not None and newest.fingerprint == fingerprint:
            return newest
        switch = Switch(
            id=uuid.uuid4().hex[:12],
            fingerprint=fingerprint,
            boot_id=boot_id,
            deployment=deployment,
            seen_at=self._clock.wall(),
            seen_boottime=boottime,
            root=root,
        )
        with self._written():
            self._db.execute(
                "INSERT INTO switch (id, fingerprint, boot_id, deployment, seen_at, seen_boottime, root, number)"
                " SELECT ?, ?, ?, ?, ?, ?, ?, COALESCE(MAX(number), 0) + 1 FROM switch",
                (switch.id, fingerprint, boot_id, deployment, switch.seen_at, boottime, root),
            )
            self._db.execute(
                "DELETE FROM switch WHERE number <= (SELECT MAX(number) FROM switch) - ?"
                " AND id NOT IN (SELECT switch_id FROM act WHERE outcome = '')",
                (_KEPT_SWITCHES,),
            )
        return switch

    def intend(self, switch: Switch, step: Step) -> int:
        """Write the intent, durably, and return its id. Raises LedgerError: then the act must not be done."""
        with self._written():
            cursor = self._db.execute(
                "INSERT INTO act (switch_id, step, subject, because, intent_at, intent_boottime, boot_id, invocation)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    switch.id,
                    step.kind,
                    rows.encode(step.subject),
                    rows.text(step.because),
                    self._clock.wall(),
                    self._clock.boottime(),
                    self._boot_id,
                    step.invocation,
                ),
            )
            act = cursor.lastrowid
            # What prevents a second restart stays: acts without outcome, and those of this switch that stopped
            # something. They are as many as there are subjects.
            self._db.execute(
                "DELETE FROM act WHERE id <= (SELECT MAX(id) FROM act) - ? AND outcome <> ''"
                " AND (switch_id <> ? OR outcome IN ('not-needed', 'not-done'))",
                (_KEPT_ACTS, switch.id),
            )
        if act is None:
            raise LedgerError(f"{self.path}: the intent was not stored")
        return act

    def restarted(self, act: int, successor: str) -> None:
        """Write which start of a unit came after the one that the act was to end, now that its job has ended. Raises
        LedgerError."""
        with self._written():
            self._db.execute(
                "UPDATE act SET successor = ?, done_boottime = ? WHERE id = ?",
                (successor, self._clock.boottime(), act),
            )

    def conclude(self, act: int, outcome: str, proof: str, failure: str = "") -> None:
        """Write how an act ended; `failure` names what kept it from curing. Raises LedgerError."""
        with self._written():
            self._db.execute(
                "UPDATE act SET outcome = ?, outcome_at = ?, proof = ?, failure = ? WHERE id = ?",
                (outcome, self._clock.wall(), rows.text(proof), failure, act),
            )

    def begin_run(self) -> int:
        """Raises LedgerError."""
        with self._written():
            cursor = self._db.execute("INSERT INTO run (started_at) VALUES (?)", (self._clock.wall(),))
            self._db.execute("DELETE FROM run WHERE id <= (SELECT MAX(id) FROM run) - ?", (_KEPT_RUNS,))
        return int(cursor.lastrowid or 0)

    def end_run(self, run: int, status: int, summary: str, plan: Plan) -> tuple[Refusal, ...]:
        """Write how a run ended and what it refused; the refusals that are new since the run before, or have
        not been told for an hour. Raises LedgerError."""
        now = self._clock.wall()
        told: list[tuple[int, float, str]] = []
        news = []
        with self._written():
            before = dict(self._db.execute("SELECT refusal, told_at FROM refusal").fetchall())
            for refusal in plan.refusals:
                text = rows.encode(refusal)
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

    def remember_before(self, act: int, sample: Sample) -> None:
        """Write what the node was like before an act that restarts its runtime. Raises LedgerError."""
        with self._written():
            self._db.execute(
                "INSERT OR REPLACE INTO recovery (act_id, before) VALUES (?, ?)", (act, rows.encode(sample))
            )
            self._db.execute("DELETE FROM recovery WHERE act_id <= ?", (act - _KEPT_ACTS,))

    def before(self, act: int) -> Optional[Sample]:
        """What was remembered; None if nothing was, or nothing that this version can read. Raises LedgerError."""
        try:
            row = self._db.execute("SELECT before FROM recovery WHERE act_id = ?", (act,)).fetchone()
        except sqlite3.Error as error:
            raise LedgerError(hint(self.path, error)) from error
        try:
            return msgspec.json.decode(row[0], type=Sample) if row is not None and row[0] else None
        except msgspec.MsgspecError:
            return None

    def recovered(self, act: int, verdict: RecoveryVerdict, why: str, *, late: bool) -> None:
        """Write how the node came back from an act: at first, or minutes afterwards. Raises LedgerError."""
        columns = ("late_verdict", "late_why", "late_at") if late else ("verdict", "why", "judged_at")
        with self._written():
            self._db.execute("INSERT OR IGNORE INTO recovery (act_id) VALUES (?)", (act,))
            self._db.execute(
                f"UPDATE recovery SET {' = ?, '.join(columns)} = ? WHERE act_id = ?",
                (verdict, rows.text(why), self._clock.wall(), act),
            )

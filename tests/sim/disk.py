# SPDX-License-Identifier: Apache-2.0
"""The ledger's disk: the real ledger on a real file, with a moment before, within and after each durable write, and
a filesystem that is read-only, full, or loses or garbles the file.

All that writes goes through a connection made here, and through the ledger's one transaction function: a test shows
with SQLite's own change counter that no write has no moment."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Callable, Optional

Moment = Callable[[str], None]
Content = Optional[tuple[str, list[Any]]]
"""The newest switch's id, and the newest acts: id, switch, step, subject, outcome."""
_READS = ("SELECT", "PRAGMA", "BEGIN")
_ABOUT_THE_FILE = ("PRAGMA quick_check", "PRAGMA table_info", "PRAGMA user_version")
OF_RUNS = ("begin_run", "end_run")
"""These functions of the ledger write what is known of runs, and nothing that an act depends on; a test looks."""
_DURABLE = 2
"""PRAGMA synchronous: FULL; EXTRA is 3."""


class Disk:
    """One ledger file and what may befall it."""

    def __init__(self, path: str, moment: Moment, committed: Callable[[tuple[str, list[Any]]], None]) -> None:
        self.path = path
        self._moment = moment
        self._committed = committed
        self.state = "ok"
        """ok, readonly, full."""
        self.version = 0
        """Grows with each change of the file."""
        self.deeds = 0
        """Grows with each change of what `rows.history` reads: the runs it does not."""
        self.shape = 0
        """Grows with each change that is no transaction on the tables as they are."""
        self.others = 0
        """Grows with each change that is not the ledger's."""
        self.garbled = 0
        """The inode of a file whose bytes are not what a connection remembers: each sees something else."""
        self._pooled: Optional[_Pooled] = None
        self.writer: Optional[_Connection] = None
        """Who began the last transaction."""
        self._idle: Optional[_Connection] = None
        """Of a ledger that was closed: the next one's, if the file is the same."""
        self.made: dict[int, set[str]] = {}
        """Tables that are known to be in a file, by its inode."""
        self._inode = 0
        self._synced: Optional[bytes] = None
        self.is_synced = True
        self._said: dict[str, list[Any]] = {}
        self._said_of = (-1, -1)

    @property
    def inode(self) -> int:
        """Which file it is; 0: there is none. Asked again only when that may have changed."""
        if not self._inode:
            with contextlib.suppress(OSError):
                self._inode = os.stat(self.path).st_ino
        return self._inode

    # --- what the product does

    def connect(self, path: str, *arguments: Any, **more: Any) -> sqlite3.Connection:
        """`sqlite3.connect` as the product gets it."""
        self._inode = 0
        if more.get("uri"):
            return self._reader(path, *arguments, **more)
        if self.state == "readonly" and not os.path.exists(path):
            raise sqlite3.OperationalError("unable to open database file")
        connection, self._idle = self._idle, None
        if connection is not None and connection.of == (self.others, self.inode):
            connection.rollback()
            return connection
        if connection is not None:
            connection.really_close()
        connection = sqlite3.connect(_unlocked(path), *arguments, factory=_Connection, uri=True, **more)
        connection.disk, connection.of = self, (self.others, 0)
        return connection

    def give_back(self, connection: _Connection) -> None:
        """A ledger was closed."""
        if self._idle is not None:
            self._idle.really_close()
        connection.of = (self.others, self.inode)
        self._idle = connection

    def _reader(self, path: str, *arguments: Any, **more: Any) -> sqlite3.Connection:
        """One connection serves all readers of a file, as long as nothing but transactions happens to it."""
        inode = self.inode
        if not inode:
            raise FileNotFoundError(self.path)
        if self._pooled is not None and self._pooled.inode != inode:
            self.close()
        if self._pooled is None:
            self._pooled = sqlite3.connect(_unlocked(path), *arguments, factory=_Pooled, **more)
            self._pooled.inode = inode
        return self._pooled

    def other(self) -> None:
        """Somebody else than the ledger has changed the file, or will at once."""
        self.version, self.deeds, self.shape = self.version + 1, self.deeds + 1, self.shape + 1
        self.others += 1
        self.close()

    def close(self) -> None:
        """A file that is another one now needs another connection."""
        self._inode = 0
        self.made.clear()
        for connection in (self._pooled, self._idle):
            if connection is not None:
                connection.really_close()
        self._pooled = self._idle = None

    def said(self, sql: str) -> Optional[list[Any]]:
        """What SQLite said to this question about the same file: to ask it again is what costs most of an open."""
        of = (self.shape, self.inode)
        if self._said_of != of:
            self._said_of = of
            self._said.clear()
        return self._said.get(sql) if self.garbled != self.inode else None

    def says(self, sql: str, rows: list[Any]) -> None:
        self._said[sql] = rows

    def may_write(self, connection: Optional[_Connection] = None) -> None:
        """Raises what SQLite raises: also for a file that has no name any more (SQLITE_READONLY_DBMOVED), which it
        does not look at with a journal in memory."""
        if connection is not None and connection.file not in (0, self.inode):
            raise sqlite3.OperationalError("attempt to write a readonly database")
        if self.state == "readonly":
            raise sqlite3.OperationalError("attempt to write a readonly database")
        if self.state == "full":
            raise sqlite3.OperationalError("database or disk is full")

    def moment(self, name: str) -> None:
        self._moment(name)

    def begins(self, connection: _Connection) -> None:
        """Raises what SQLite raises if another connection is in a transaction that writes."""
        if self.writer is not None and self.writer is not connection and self.writer.in_transaction:
            raise sqlite3.OperationalError("database is locked")
        self.writer = connection

    def wrote(self, durable: bool, by: str, content: Content) -> None:
        """A transaction has been committed by this function of the ledger's, or outside of them; what is in the
        file."""
        self.version += 1
        self.shape += by == ""
        if durable:
            self.is_synced = True
        elif self.is_synced:
            self.is_synced = False
        if by in OF_RUNS:
            return
        self.deeds += 1
        if content is not None:
            self._committed(content)

    def about_to_write(self, durable: bool) -> None:
        """What is on the platter is kept, if what comes may not get there."""
        if not durable and self.is_synced:
            self._synced = self._bytes()

    def _bytes(self) -> Optional[bytes]:
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except OSError:
            return None

    # --- what befalls it

    def begin_with(self, template: Path) -> None:
        """The product has run here before."""
        shutil.copyfile(template, self.path)

    def power_cut(self) -> None:
        """What was never synced is gone."""
        if not self.is_synced:
            self.lose()
            if self._synced is not None:
                with open(self.path, "wb") as file:
                    file.write(self._synced)
            self.is_synced = True

    def lose(self) -> None:
        self.other()
        for path in (self.path, self.path + "-journal"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        self._inode = 0

    def garble(self, after: int) -> None:
        """Its bytes are others from there on."""
        self.other()
        data = self._bytes()
        self.garbled = self.inode
        if data:
            with open(self.path, "r+b") as file:
                file.seek(min(after, len(data) - 1))
                file.write(b"\xa5" * (len(data) - min(after, len(data) - 1)))

    def newer(self) -> None:
        """A newer product has written it: more columns, a higher version."""
        self._alter("ALTER TABLE act ADD COLUMN colour TEXT NOT NULL DEFAULT 'blue'", "PRAGMA user_version = 7")

    def older(self) -> None:
        """An older product has written it: what it does not know is not there."""
        self._alter("ALTER TABLE switch DROP COLUMN seen_boottime", "DROP TABLE IF EXISTS note")

    def _alter(self, *statements: str) -> None:
        self.other()
        if not os.path.exists(self.path):
            return
        db = sqlite3.connect(self.path, timeout=0.0)
        try:
            for statement in statements:
                with contextlib.suppress(sqlite3.Error):
                    db.execute(statement)
            db.commit()
        except sqlite3.Error:
            return  # Garbled already: then it is so.
        finally:
            db.close()


def _unlocked(path: str) -> str:
    """All connections are this process's, and one at a time: to lock the file costs a third of each transaction.

    Source: sqlite.org/vfs.html (unix-none)."""
    return f"{path}&vfs=unix-none" if path.startswith("file:") else f"file:{path}?vfs=unix-none"


def content(db: sqlite3.Connection) -> Content:
    """What there is that can be checked; None if the file cannot be read."""
    try:
        newest = db.execute("SELECT id FROM switch ORDER BY number DESC LIMIT 1").fetchone()
        acts = db.execute("SELECT id, switch_id, step, subject, outcome FROM act ORDER BY id DESC LIMIT 100")
        return newest[0] if newest else "", acts.fetchall()
    except sqlite3.Error:
        return None


class _Pooled(sqlite3.Connection):
    """A reader's connection that stays."""

    inode = 0

    def close(self) -> None:
        return

    def really_close(self) -> None:
        super().close()


class _Rows:
    """What a cursor gives."""

    def __init__(self, rows: list[Any]) -> None:
        self._rows = rows

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Any]:
        return self._rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


_NO_ROWS: Any = _Rows([])


@cache
def _kind(sql: str) -> str:
    """read, begin, write; of the file as a whole: about; of the connection: setting."""
    head = sql.split(None, 1)[0].upper()
    if sql.startswith(_ABOUT_THE_FILE) and "=" not in sql:
        return "about"
    if head == "PRAGMA" and "=" in sql:
        return "write" if "user_version" in sql else "setting"
    return "begin" if head == "BEGIN" else "read" if head in _READS else "write"


class _Connection(sqlite3.Connection):
    """A connection that tells of each write outside a transaction, and of each begin."""

    disk: Disk
    of = (-1, -1)
    file = 0
    """Its inode."""
    _durable: Optional[bool] = None
    _settings: Collection[str] = ()

    def close(self) -> None:
        if self.of[0] == self.disk.others:
            self.disk.give_back(self)
        else:
            self.really_close()

    def really_close(self) -> None:
        if self.disk.writer is self:
            self.disk.writer = None
        super().close()

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        if self.in_transaction:
            return super().execute(sql, *arguments)
        kind = _kind(sql)
        if kind == "about":
            return self._ask(sql)
        if kind == "setting":
            return self._set(sql)
        if kind == "begin":
            self.disk.may_write(self)
            self.disk.begins(self)
        if kind != "write":
            return super().execute(sql, *arguments)
        if sql in self.disk.made.get(self.disk.inode, ()):
            return _NO_ROWS  # It is there: nothing is written, so this is no moment.
        before = self.change()
        self.disk.moment("before:create")
        self.disk.about_to_write(self.is_durable())
        if self.disk.state != "ok" and not sql.startswith("CREATE TABLE IF NOT EXISTS"):
            self.disk.may_write()
        cursor = super().execute(sql, *arguments)
        if sql.startswith("CREATE"):
            self.disk.made.setdefault(self.disk.inode, set()).add(sql)
        if self.change() != before:
            self.disk.wrote(self.is_durable(), "", content(self))
            self.disk.moment("after:create")
        return cursor

    def _set(self, sql: str) -> Any:
        """A setting of the connection's, which is kept with it."""
        if sql == "PRAGMA journal_mode = DELETE":
            # A journal in memory rolls back all the same, and three times as fast: no process really dies here.
            sql = "PRAGMA journal_mode = MEMORY"
        if sql in self._settings:
            return _NO_ROWS
        self._settings = {*self._settings, sql}
        self._durable = None
        return super().execute(sql)

    def _ask(self, sql: str) -> Any:
        self.file = self.file or self.disk.inode
        rows = self.disk.said(sql)
        if rows is None:
            rows = super().execute(sql).fetchall()
            self.disk.says(sql, rows)
        return _Rows(rows)

    def change(self) -> int:
        """SQLite's file change counter (file format, offset 24)."""
        return change_counter(self.disk.path)

    def is_durable(self) -> bool:
        if self._durable is None:
            self._durable = bool(super().execute("PRAGMA synchronous").fetchone()[0] >= _DURABLE)
        return self._durable


def change_counter(path: str) -> int:
    """How many transactions have changed the file; 0 where there is none.

    Source: SQLite's file format, 1.3.7: incremented by each transaction with a rollback journal."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return 0
    try:
        return int.from_bytes(os.pread(fd, 4, 24), "big")
    finally:
        os.close(fd)

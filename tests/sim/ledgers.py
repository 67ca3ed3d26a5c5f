# SPDX-License-Identifier: Apache-2.0
"""The real ledger's modules as the product has them on a simulated disk: the same functions, with a moment around each
transaction, and what was read of a file is not read again before it changes."""

from __future__ import annotations

import contextlib
import inspect
import sqlite3
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Callable

from ostreewatchd import ledger as ledgers
from ostreewatchd.ledger import Ledger
from tests.sim.disk import OF_RUNS, Disk, content


def traced(disk: Disk) -> Callable[..., Ledger]:
    """The real Ledger's class, with moments around its one transaction function."""

    class Traced(Ledger):
        @contextlib.contextmanager
        def _written(self) -> Iterator[None]:
            # Called from contextlib's __enter__, called from the method that writes.
            name = sys._getframe(2).f_code.co_name.replace("__init__", "set_aside")
            disk.moment(f"before:{name}")
            durable = self._db.is_durable()  # type: ignore[attr-defined]
            disk.about_to_write(durable)
            with super()._written():
                yield
                disk.moment(f"within:{name}")
                disk.may_write(self._db)  # type: ignore[arg-type]
                written = content(self._db) if name not in OF_RUNS else None
            disk.wrote(durable, name, written)
            disk.moment(f"after:{name}")

    return Traced


class Sqlite(ModuleType):
    """`sqlite3` as the product's modules have it."""

    def __init__(self, disk: Disk) -> None:
        super().__init__("sqlite3")
        self.connect = disk.connect

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlite3, name)


def remembered(disk: Disk, ask: Callable[[sqlite3.Connection], Any]) -> Callable[[sqlite3.Connection], Any]:
    """The same question, asked of a file again only after a change."""
    known: list[Any] = [None, None]

    def answer(db: sqlite3.Connection) -> Any:
        of = (disk.deeds, disk.inode)
        if known[0] != of or disk.garbled == disk.inode != 0:
            known[:] = [None, None]
            known[:] = [of, _at_once(db, ask)]
        return known[1]

    return answer


def _at_once(db: sqlite3.Connection, ask: Callable[[sqlite3.Connection], Any]) -> Any:
    """In one transaction, which looks at the file once and not for each question."""
    if db.in_transaction:
        return ask(db)
    sqlite3.Connection.execute(db, "BEGIN")
    try:
        return ask(db)
    finally:
        if db.in_transaction:
            sqlite3.Connection.execute(db, "ROLLBACK")


def takes_clock() -> bool:
    """Whether the ledger is given its clock."""
    return "clock" in inspect.signature(ledgers.Ledger.__init__).parameters


class Reader:
    """`ledger` as the watcher's modules have it: the real functions on this file, asked again only after a change."""

    LedgerError = ledgers.LedgerError

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._known: dict[str, tuple[int, Any]] = {}

    def _ask(self, name: str) -> Any:
        version, answer = self._known.get(name, (-1, None))
        if version != self._disk.version:
            answer = getattr(ledgers, name)(self._disk.path)
            self._known[name] = (self._disk.version, answer)
        return answer

    def read(self) -> Any:
        return self._ask("read")

    def last_run(self) -> Any:
        return self._ask("last_run")

    def newest_run(self) -> Any:
        return self._ask("newest_run")

    def is_running(self) -> Any:
        return ledgers.is_running(self._disk.path)

# SPDX-License-Identifier: Apache-2.0
"""Killed, or the power cut, before and after every system call that changes a file beside the ledger's transactions:
the pause, the request, what was told, the ledger that is set aside. The calls are those of a traced run, and a test
shows that there are no others."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Optional

import msgspec
import pytest

from ostreewatchd import wanted
from ostreewatchd.ledger import Ledger, pausing
from ostreewatchd.ledger import file as ledger_file
from ostreewatchd.model import Pause
from ostreewatchd.remediation import told
from tests.unit.sources import modules

CHANGES = frozenset({"open", "write", "fsync", "fchmod", "chmod", "rename", "replace", "unlink", "makedirs", "mkdir",
                     "truncate", "ftruncate", "link", "symlink", "rmdir", "remove"})  # fmt: skip
OLD = Pause(since=1.0, since_boottime=1.0, boot_id="b", seconds=60.0, who="a", why="old")
NEW = msgspec.structs.replace(OLD, why="new", seconds=7200.0)


class Cut(BaseException):
    """The process is gone."""


class Disk(ModuleType):
    """`os` for one module: counts the calls that change something in a directory, ends the process before or after
    one of them, and knows what a power cut may leave.

    Source: fsync(2): data is on the disk with the file's, and its name with the directory's."""

    def __init__(self, directory: Path, moment: int = -1) -> None:
        super().__init__("os")
        self._directory, self._moment = directory, moment
        self.moments: list[str] = []
        self._data = {path.stat().st_ino: path.read_bytes() for path in self._files()}
        self._names = self._entries()

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in CHANGES:
            return real

        def call(*arguments: Any, **more: Any) -> Any:
            if name == "open" and not arguments[1] & (os.O_CREAT | os.O_WRONLY | os.O_RDWR):
                return real(*arguments, **more)
            self._at(f"before {name}")
            answer = real(*arguments, **more)
            if name == "fsync":
                self._synced(arguments[0])
            elif name == "open" and os.fstat(answer).st_ino not in self._names.values():
                self._data.pop(os.fstat(answer).st_ino, None)  # A number that was used before.
            self._at(f"after {name}")
            return answer

        return call

    def _at(self, name: str) -> None:
        self.moments.append(name)
        if len(self.moments) == self._moment:
            raise Cut

    def _files(self) -> list[Path]:
        return [path for path in self._directory.iterdir() if not path.is_symlink()]

    def _entries(self) -> dict[str, int]:
        return {path.name: path.stat().st_ino for path in self._files()}

    def _synced(self, fd: int) -> None:
        inode = os.fstat(fd).st_ino
        if inode == self._directory.stat().st_ino:
            self._names = self._entries()
        else:
            self._data[inode] = next(path.read_bytes() for path in self._files() if path.stat().st_ino == inode)

    def power_cut(self, *, keeps_names: bool) -> None:
        """Data that was not synced is gone; names that were not may be, or may not."""
        names = self._entries() if keeps_names else self._names
        for path in self._directory.iterdir():
            path.unlink()
        for name, inode in names.items():
            (self._directory / name).write_bytes(self._data.get(inode, b""))


AFTERWARDS: dict[str, Callable[[Disk], None]] = {
    "killed": lambda disk: None,
    "power cut, names lost": lambda disk: disk.power_cut(keeps_names=False),
    "power cut, names kept": lambda disk: disk.power_cut(keeps_names=True),
}


@contextmanager
def on(disk: Disk, module: ModuleType) -> Iterator[None]:
    before = vars(module)["os"]
    setattr(module, "os", disk)  # noqa: B010  mypy knows that a module's os is no Disk.
    try:
        yield
    finally:
        setattr(module, "os", before)  # noqa: B010


def lives(
    module: ModuleType, directory: Path, before: Callable[[], object], act: Callable[[], object]
) -> Iterator[str]:
    """After each cut, what befell the machine; the directory is as it was left. Last comes the life that was whole."""
    before()
    traced = Disk(directory)
    with on(traced, module):
        act()
    for moment in (*range(1, len(traced.moments) + 1), len(traced.moments) + 1):
        for name, befalls in AFTERWARDS.items():
            before()
            disk = Disk(directory, moment)
            is_whole = True
            with on(disk, module):
                try:
                    act()
                except Cut:
                    is_whole = False
            befalls(disk)
            yield f"whole: {name}" if is_whole else f"{disk.moments[-1]}: {name}"


@pytest.mark.parametrize("before", [None, OLD])
def test_a_pause_is_the_old_or_the_new_one(tmp_path: Path, before: Optional[Pause]) -> None:
    """And once the verb has said so, the new one."""

    def begin() -> None:
        pausing.remove(str(tmp_path))
        if before is not None:
            pausing.write(str(tmp_path), before)

    seen = set()
    for cut in lives(pausing, tmp_path, begin, lambda: pausing.write(str(tmp_path), NEW)):
        seen.add(cut.partition(":")[0])
        found = pausing.read(str(tmp_path))
        assert found == NEW if cut.startswith("whole") else found in (before, NEW), (cut, found)
        pausing.write(str(tmp_path), OLD)  # What was left behind is in nobody's way.
        assert pausing.read(str(tmp_path)) == OLD
    assert {"before open", "after write", "after fsync", "before rename", "after rename", "whole"} <= seen


def test_a_pause_that_was_ended_is_ended(tmp_path: Path) -> None:
    for cut in lives(
        pausing, tmp_path, lambda: pausing.write(str(tmp_path), OLD), lambda: pausing.remove(str(tmp_path))
    ):
        found = pausing.read(str(tmp_path))
        assert found is None if cut.startswith("whole") else found in (OLD, None), (cut, found)


@pytest.mark.parametrize("link", [False, True])
def test_a_request_can_be_made_again(tmp_path: Path, link: bool) -> None:
    """It is in /run: a power cut takes it with it, and the watcher looks at its start."""
    path = tmp_path / "wanted"

    def begin() -> None:
        path.unlink(missing_ok=True)
        if link:
            path.symlink_to("/nowhere")

    for cut in lives(wanted, tmp_path, begin, lambda: wanted.ask(str(path))):
        if "power" in cut:
            continue
        assert not cut.startswith("whole") or (path.exists() and not path.is_symlink())
        wanted.ask(str(path))
        assert path.is_file() and not path.is_symlink(), cut


def test_what_was_told_is_told_once_more_at_the_worst(tmp_path: Path) -> None:
    path = str(tmp_path / "told.json")

    def begin() -> None:
        for old in tmp_path.iterdir():
            old.unlink()
        told.news(["a"], 100.0, path)

    for cut in lives(told, tmp_path, begin, lambda: told.news(["a", "b"], 200.0, path)):
        again = told.news(["a", "b", "c"], 300.0, path)
        assert "c" in again and told.news(["a", "b", "c"], 301.0, path) == (), cut
        assert again == ("c",) or not cut.startswith("whole: killed")


def test_a_ledger_that_was_set_aside_half_way_does_not_spoil_the_new_one(tmp_path: Path) -> None:
    """Its journal is the old one's: what is begun anew must not be rolled back to it."""
    path = tmp_path / "ledger.db"

    def begin() -> None:
        for old in tmp_path.iterdir():
            old.unlink()
        path.write_bytes(b"this is no database\n" * 500)
        (tmp_path / "ledger.db-journal").write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"x" * 2000)

    count = 0
    for cut in lives(ledger_file, tmp_path, begin, lambda: ledger_file.put_aside(str(path))):
        count += 1
        with Ledger(str(path), "b") as ledger:
            assert ledger.history().switch is None and ledger.begin_run() == 1, cut
        with Ledger(str(path), "b") as ledger:
            assert ledger.begin_run() == 2 and not ledger.set_aside, cut
    assert count == 15


# --- that these are all ------------------------------------------------------------------------------------------

WRITERS = {
    "ostreewatchd.ledger.pausing.write": "above",
    "ostreewatchd.ledger.pausing.remove": "above",
    "ostreewatchd.ledger.pausing._sync": "above, as the last call of both",
    "ostreewatchd.wanted.ask": "above",
    "ostreewatchd.remediation.told._write": "above",
    "ostreewatchd.ledger.file.put_aside": "above; and tests/sim, with the ledger",
    "ostreewatchd.ledger.file.open_or_create": "tests/sim: SQLite's own, and who may read it, each time anew",
    "ostreewatchd.remediation.program._only_one": "a lock: the kernel lets it go with the process",
    "ostreewatchd.cli.pause.run": "makes the state directory, if there is none",
    "ostreewatchd.cli.newfile.write": "a file for a person, which nothing reads",
    "ostreewatchd.peers.aside._send": "a pipe to who asked",
    "ostreewatchd.peers.paths._walk": "opens to look: no flag that writes is passed to it",
    "ostreewatchd.peers.apiserver._context": "memory alone: a certificate that OpenSSL takes from a file",
}
"""Each function that changes a file itself: where it is cut, or why there is nothing to cut."""


def test_every_function_that_changes_a_file_is_known() -> None:
    found = set()
    for module in modules():
        for function in ast.walk(module.tree):
            is_function = isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
            if is_function and any(_changes(node) for node in ast.walk(function)):
                found.add(f"{module.name}.{function.name}")  # type: ignore[attr-defined]
    assert found == set(WRITERS)


def _changes(node: ast.AST) -> bool:
    """A call of os that changes something; of open, one whose flags are not known to be of reading."""
    if not isinstance(node, ast.Call):
        return False
    function = ast.unparse(node.func)
    if function.startswith("os.") and function[3:] in CHANGES:
        flags = ast.unparse(node.args[1]) if function == "os.open" and len(node.args) > 1 else "O_CREAT"
        return any(word in flags for word in ("O_CREAT", "O_WRONLY", "O_RDWR", "O_TRUNC", "flags"))
    if function == "open":
        return any("w" in str(ast.literal_eval(it)) for it in node.args[1:2]) and "devnull" not in ast.unparse(node)
    return function.startswith("shutil.") or function.rpartition(".")[2] in ("write_text", "write_bytes")

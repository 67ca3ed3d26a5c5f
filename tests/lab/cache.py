# SPDX-License-Identifier: Apache-2.0
"""Where the lab keeps things: one folder for each stage's result, named by what it was made from."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Callable, Optional

from tests.lab.errors import LabError

LOCK_LIMIT = 45 * 60.0


class Held(LabError):
    """Somebody else has the lock."""


def root() -> Path:
    """The cache root: $OSTREEWATCHD_LAB, or a fixed folder below /var/cache."""
    return Path(os.environ.get("OSTREEWATCHD_LAB") or "/var/cache/ostreewatchd-lab")


def folder(*parts: str) -> Path:
    """A folder below the cache root, made when missing."""
    path = root().joinpath(*parts)
    path.mkdir(parents=True, exist_ok=True)
    return path


def digest(paths: Iterable[Path], relative_to: Path) -> str:
    """One hash over names, modes and contents of files and of all files below folders."""
    total = hashlib.sha256()
    for path in sorted(_files(paths)):
        content = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
        mode = path.lstat().st_mode & 0o111
        total.update(f"{path.relative_to(relative_to)}\0{mode}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_symlink() or path.is_file():
            yield path
        elif path.is_dir():
            for base, folders, names in os.walk(path):
                folders[:] = [name for name in folders if name != "__pycache__" and not name.startswith(".")]
                yield from (Path(base, name) for name in names if not name.endswith(".pyc"))


@contextlib.contextmanager
def locked(name: str, waiting: Optional[Callable[[], None]] = None, limit: float = LOCK_LIMIT) -> Iterator[None]:
    """Hold the lock of that name; `waiting` is called once when somebody else has it."""
    deadline = time.monotonic() + limit
    with (folder("locks") / f"{name}.lock").open("w") as stream:
        told = False
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Held(
                        f"another process holds the lock of {name} for more than {limit:g} s",
                        hint=f"fuser -v {stream.name} shows which",
                    ) from None
                if not told and waiting is not None:
                    waiting()
                told = True
                time.sleep(0.2)
        yield


def prune(keep: set[str]) -> list[str]:
    """Remove the results that are not in `keep`, and what killed builds left; say what went.

    What is being made right now is left alone."""
    gone = []
    for entry in sorted(folder("stages").iterdir()):
        if entry.name in keep:
            continue
        with contextlib.suppress(Held), locked(entry.name.split(".tmp")[0], limit=0):
            shutil.rmtree(entry, ignore_errors=True)
            gone.append(entry.name)
    for log in sorted(folder("logs").glob("*-*.log")):
        if log.stem not in keep:
            with contextlib.suppress(Held), locked(log.stem, limit=0):
                log.unlink()
    return gone

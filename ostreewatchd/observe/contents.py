# SPDX-License-Identifier: Apache-2.0
"""Whether a process executes and maps what its paths have now, told by content.

The same inode number and birth are the same file: behind an overlay what was not replaced keeps both, on another
device. Where they differ the contents are compared, each read once. A library that is mapped can be read only by who
may follow /proc/<pid>/map_files (CAP_CHECKPOINT_RESTORE); without that it is another one if its inode is, for in an
OSTree deployment the same content is the same inode.

Sources: proc_pid_maps(5), proc_pid_exe(5); Documentation/filesystems/overlayfs.rst (constant inode numbers);
ostree-repo(1) (a checkout is hard links to objects, which are named by their content)."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from typing import NamedTuple, Optional

from ostreewatchd.model import Program
from ostreewatchd.model.runtimes import CLOCKS_APART
from ostreewatchd.parse import maps
from ostreewatchd.peers import proc
from ostreewatchd.peers.paths import Root, What

_MAX_BYTES = 512 << 20
_CHUNK = 1 << 20
_MAX_KEPT = 64
_USR = ("/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/")
"""What leads below it, too (file-hierarchy(7))."""


class _Key(NamedTuple):
    dev: int
    ino: int
    size: int
    changed: int


class Contents:
    """Remembers digests between the looks of one program."""

    def __init__(self) -> None:
        self._digests: dict[_Key, str] = {}

    def programs(self, pid: int, root: Root, *, in_ostree: bool) -> Iterator[Program]:
        """What the process executes, and what else it maps to execute, each against what `root`, its own, has at
        that path now. Raises Unreadable."""
        try:
            path = os.readlink(f"/proc/{pid}/exe")
        except OSError as error:
            raise proc.Unreadable(f"/proc/{pid}/exe: {error.strerror}") from error
        path = path[: -len(" (deleted)")] if path.endswith(" (deleted)") else path
        for one in maps.executed(proc.read(pid, "maps") or b""):
            itself = one.path == path
            now = _what(root, one.path)
            link = f"/proc/{pid}/exe" if itself else f"/proc/{pid}/map_files/{one.range}"
            same = self._same(one, now, link, root, in_ostree=in_ostree)
            if same is not True or itself:
                changed_at = since("/usr/", now) if now is not None else None
                yield Program(path=one.path, role="itself" if itself else "library", same=same, changed_at=changed_at)

    def _same(
        self, one: maps.Mapped, now: Optional[What], link: str, root: Root, *, in_ostree: bool
    ) -> Optional[bool]:
        if now is None:
            return None
        if now.identity.ino == one.ino and not one.deleted:
            return True
        mine = self._digest(link)
        if mine is None:
            return False if in_ostree else None
        theirs = self._digest_in(root, one.path)
        return None if theirs is None else mine == theirs

    def _digest_in(self, root: Root, path: str) -> Optional[str]:
        try:
            with root.opened(path, os.O_PATH, True) as fd:
                return self._digest(f"/proc/self/fd/{fd}") if stat.S_ISREG(os.fstat(fd).st_mode) else None
        except OSError:
            return None

    def _digest(self, name: str) -> Optional[str]:
        try:
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return None
        try:
            now = os.fstat(fd)
            key = _Key(now.st_dev, now.st_ino, now.st_size, now.st_ctime_ns)
            known = self._digests.get(key)
            if known is None and now.st_size <= _MAX_BYTES:
                known = _read(fd)
                if len(self._digests) >= _MAX_KEPT:
                    self._digests.clear()
                self._digests[key] = known
            return known
        except OSError:
            return None
        finally:
            os.close(fd)


def _read(fd: int) -> str:
    digest, left = hashlib.sha256(), _MAX_BYTES
    while left > 0:
        chunk = os.read(fd, _CHUNK)
        if not chunk:
            break
        digest.update(chunk)
        left -= len(chunk)
    return digest.hexdigest()


def _what(root: Root, path: str) -> Optional[What]:
    try:
        return root.what(path)
    except OSError:
        return None


def since(path: str, what: What) -> Optional[float]:
    """When what is at the path became what it is; None: not known. It was written to, or is another file since; a
    ctime tells less, for a mode, a label, or one more link of a deployment below /usr changes it too. Where the
    filesystem knows no births, outside of /usr the ctime is all there is."""
    modified = what.modified[0] + what.modified[1] / 1e9
    if what.born_at is not None:
        return max(modified, what.born_at)
    return None if path.startswith(_USR) else max(modified, what.changed_at)


def is_yet_to_come(moment: float) -> bool:
    """Whether a stamp is ahead of the clock: it was written while that was wrong (a hardware clock in local time), or
    by who set it, and so does not tell whether it is newer than a process."""
    return moment > time.time() + CLOCKS_APART

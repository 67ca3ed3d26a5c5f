# SPDX-License-Identifier: Apache-2.0
"""Which directories another process watches by inotify, as the kernel tells it; kept by who looks more than once.

An inode's number and device in fdinfo are not those of stat(2) on each filesystem (an overlay, btrfs). What the kernel
would call a directory there is asked of the kernel: by a watch of our own on it, for a moment.

Source: proc_pid_fdinfo(5), inotify(7)."""

from __future__ import annotations

import contextlib
import os
from typing import Optional

from inotify_simple import INotify, flags

from ostreewatchd.parse.fdinfo import Mark, inotify_marks
from ostreewatchd.peers import proc
from ostreewatchd.peers.paths import Root

_INOTIFY = "anon_inode:inotify"
_MAX_FDS = 1 << 16
_MAX_INOTIFY = 64


class Watches:
    """Closed by who made it."""

    def __init__(self) -> None:
        self._own: Optional[INotify] = None
        self._known: dict[tuple[int, int], tuple[str, ...]] = {}
        """Descriptors by pid and start: of thousands few are of inotify, and these are made once."""

    def close(self) -> None:
        if self._own is not None:
            self._own.close()
            self._own = None

    def mark(self, root: Root, directory: str) -> Mark:
        """What the kernel calls the directory, as it is in the root now. Raises OSError: EMFILE and ENOSPC where there
        is no room for one watch more."""
        if self._own is None:
            self._own = INotify(nonblocking=True)
        with root.held(directory) as name:
            watch = self._own.add_watch(name, flags.DELETE_SELF | flags.ONLYDIR)
        try:
            (mark,) = inotify_marks(proc.read(os.getpid(), f"fdinfo/{self._own.fileno()}") or b"")
        except ValueError:
            raise OSError(0, "the kernel does not tell what is watched (CONFIG_INOTIFY_USER, proc)") from None
        finally:
            with contextlib.suppress(OSError):  # It may have been removed meanwhile.
                self._own.rm_watch(watch)
            self._own.read(timeout=0)
        return mark

    def has(self, pid: int, mark: Mark) -> Optional[bool]:
        """Whether the process watches that; None if it watches nothing at all, or has ended. Raises Unreadable."""
        stat = proc.stat(pid)
        if stat is None:
            return None
        key = (pid, stat.start_ticks)
        if mark in self._marks(pid, self._known.get(key, ())):
            return True
        found = _of_inotify(pid)
        self._known = {key: found} if len(self._known) > _MAX_INOTIFY else {**self._known, key: found}
        marks = self._marks(pid, found)
        return mark in marks if marks else None

    def _marks(self, pid: int, descriptors: tuple[str, ...]) -> frozenset[Mark]:
        return frozenset().union(*(inotify_marks(proc.read(pid, f"fdinfo/{fd}") or b"") for fd in descriptors))


def _of_inotify(pid: int) -> tuple[str, ...]:
    try:
        names = os.listdir(f"/proc/{pid}/fd")[:_MAX_FDS]
    except (FileNotFoundError, ProcessLookupError):
        return ()
    except OSError as error:
        raise proc.Unreadable(f"/proc/{pid}/fd: {error.strerror}") from error
    found = []
    for name in names:
        with contextlib.suppress(OSError):  # Closed meanwhile.
            if os.readlink(f"/proc/{pid}/fd/{name}") == _INOTIFY:
                found.append(name)
    return tuple(found[:_MAX_INOTIFY])

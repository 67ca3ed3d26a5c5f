# SPDX-License-Identifier: Apache-2.0
"""Wakes when something is written into a CNI configuration directory of the host's, or a directory in it: a token that
was renewed, a configuration that came or went.

A watch sticks to the directory that it was made on. A mount over it makes no event here, and the old one goes on to
tell of what is written into the old tree; so it is armed anew after each look, with what the host has now. Some
filesystems tell nothing (an overlay that copies up): what is lost costs time until the resync, never correctness.

Source: inotify(7) (IN_CLOSE_WRITE comes when a file is whole; ENOSPC: no watch is left; inotify_init1(2), EMFILE: no
instance is); rancher/rke2#8356."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Callable, Optional

from inotify_simple import INotify, flags

from ostreewatchd.lean import asyncio
from ostreewatchd.peers.paths import Root

_EVENTS = (
    flags.CLOSE_WRITE | flags.MOVED_TO | flags.MOVED_FROM | flags.CREATE | flags.DELETE | flags.DELETE_SELF
    | flags.MOVE_SELF | flags.ONLYDIR
)  # fmt: skip
_MAX_WATCHES = 64
_FILES = (".conf", ".conflist", ".json", "kubeconfig")


class ConfigurationWatch:
    """Calls `changed` in the loop's thread; and `lost`, with the reason, when it cannot watch any more: then what
    changes is found by looking again and again."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None], lost: Callable[[str], None]
    ) -> None:
        self._loop = loop
        self._changed = changed
        self._lost = lost
        self._inotify: Optional[INotify] = None
        self._watched: frozenset[int] = frozenset()
        self._why = ""

    def arm(self, root: Root, directories: Sequence[str]) -> None:
        """Watch these of the host's (`root`: PID 1's), those in them, and no others. A directory that is watched
        already is not watched twice. What is not there is looked for the next time."""
        watched, why = set(), ""
        try:
            inotify = self._started()
        except OSError as error:
            self._tell(f"inotify: {error.strerror}")
            return
        for path in _with_those_below(root, directories):
            try:
                with root.held(path) as name:
                    watched.add(inotify.add_watch(name, _EVENTS))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                why = f"{path}: {error.strerror}"
        for watch in self._watched - watched:
            with contextlib.suppress(OSError):  # The directory is gone, and the watch with it.
                inotify.rm_watch(watch)
        self._watched = frozenset(watched)
        self._tell(why)

    def close(self) -> None:
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.fileno())
            self._inotify.close()

    def _started(self) -> INotify:
        if self._inotify is None:
            self._inotify = INotify(nonblocking=True)
            self._loop.add_reader(self._inotify.fileno(), self._woken)
        return self._inotify

    def _tell(self, why: str) -> None:
        """Once; and again when it could meanwhile."""
        if why and why != self._why:
            self._lost(why)
        self._why = why

    def _woken(self) -> None:
        events = self._inotify.read(timeout=0) if self._inotify is not None else ()
        # The end of a watch that was left is none of the directory's; overflow has no watch (-1).
        if any(event.wd in self._watched or event.wd == -1 for event in events):
            self._changed()


def _with_those_below(root: Root, directories: Sequence[str]) -> Iterator[str]:
    """At the most some dozens, the directories themselves first."""
    left = _MAX_WATCHES
    for directory in directories[:left]:
        left -= 1
        yield directory
    for directory in directories:
        try:
            names = root.names(directory)
        except OSError:
            continue
        for name in names:
            path = f"{directory}/{name}"
            if left > 0 and not name.endswith(_FILES) and _is_directory(root, path):
                left -= 1
                yield path


def _is_directory(root: Root, path: str) -> bool:
    try:
        return root.what(path, links=False).is_directory
    except OSError:
        return False

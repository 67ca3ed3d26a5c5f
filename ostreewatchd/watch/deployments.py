# SPDX-License-Identifier: Apache-2.0
"""Wakes when libostree has written or removed a deployment: it touches /ostree/deploy each time.

Source: ostree-sysroot.c (_ostree_sysroot_bump_mtime). The watch is on the stateroots' parent, through PID 1's
root: it holds nothing below a deployment."""

from __future__ import annotations

from typing import Callable

from inotify_simple import INotify, flags

from ostreewatchd.lean import asyncio

PATH = "/proc/1/root/ostree/deploy"


class DeploymentWatch:
    """Calls `changed` in the loop's thread. Overflow is one more reason to look, so it is not told apart."""

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None], path: str = PATH) -> None:
        """Raises OSError: no such directory (no OSTree host), or no inotify instance left."""
        self._loop = loop
        self._changed = changed
        self._inotify = INotify(nonblocking=True)
        try:
            self._inotify.add_watch(path, flags.ATTRIB | flags.CREATE | flags.DELETE | flags.ONLYDIR)
        except OSError:
            self._inotify.close()
            raise
        loop.add_reader(self._inotify.fileno(), self._woken)

    def close(self) -> None:
        self._loop.remove_reader(self._inotify.fileno())
        self._inotify.close()

    def _woken(self) -> None:
        # Without a timeout read() blocks, also on a non-blocking descriptor.
        if self._inotify.read(timeout=0):
            self._changed()

# SPDX-License-Identifier: Apache-2.0
"""Wakes when a person has ordered or ended a pause: a file that is renamed into the product's state directory, or
removed from it. All else there is the remediation's own."""

from __future__ import annotations

from typing import Callable

from inotify_simple import INotify, flags

from ostreewatchd.lean import asyncio

DIRECTORY = "/var/lib/ostreewatchd"
_NAME = "pause.json"


class OrderWatch:
    """Calls `changed` in the loop's thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None], directory: str = DIRECTORY
    ) -> None:
        """Raises OSError where no inotify instance is left."""
        self._loop = loop
        self._changed = changed
        self._directory = directory
        self._inotify = INotify(nonblocking=True)
        loop.add_reader(self._inotify.fileno(), self._woken)
        self.arm()

    def arm(self) -> None:
        """Watch the directory; again and again, for the first remediation makes it. The same one twice is one."""
        try:
            self._inotify.add_watch(self._directory, flags.MOVED_TO | flags.DELETE | flags.ONLYDIR)
        except OSError:
            return  # Not there yet: looked for at each resync.

    def close(self) -> None:
        self._loop.remove_reader(self._inotify.fileno())
        self._inotify.close()

    def _woken(self) -> None:
        # Overflow has no name: one more reason to look.
        if any(event.name in (_NAME, "") for event in self._inotify.read(timeout=0)):
            self._changed()

# SPDX-License-Identifier: Apache-2.0
"""Wakes at each change of PID 1's mount table.

The kernel raises POLLERR and POLLPRI on an open mountinfo, once per change and per descriptor, and each poll
consumes that; the event loop sees POLLERR as writable. After a wake-up the descriptor is left out of the loop for a
moment, so that a storm of mounts costs a few wake-ups a second. To put it back polls it, and so swallows what
happened meanwhile: a second descriptor, which is polled by hand, tells of that."""

from __future__ import annotations

import os
import select
from typing import Callable, Optional

from ostreewatchd.lean import asyncio

_PATH = "/proc/1/mountinfo"
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.2
"""Seconds out of the loop after a wake-up: twice as long each time that the next one comes soon."""
_CALM = 0.2
"""Seconds in the loop without a wake-up after which the pause is short again."""


class MountWatch:
    """Calls `changed` in the loop's thread: at once, and in a storm no more often than every LONGEST_PAUSE."""

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        """Raises OSError where PID 1's mountinfo cannot be opened."""
        self._loop = loop
        self._changed = changed
        self._timer: Optional[asyncio.TimerHandle] = None
        self._pause = FIRST_PAUSE
        self._back_at = -_CALM
        self._fd = os.open(_PATH, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self._by_hand = os.open(_PATH, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            os.close(self._fd)
            raise
        self._poll = select.poll()
        self._poll.register(self._by_hand, select.POLLPRI)
        loop.add_writer(self._fd, self._woken)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_writer(self._fd)
        os.close(self._fd)
        os.close(self._by_hand)

    def _woken(self) -> None:
        self._poll.poll(0)
        soon = self._loop.time() - self._back_at < _CALM
        self._pause = min(LONGEST_PAUSE, self._pause * 2) if soon else FIRST_PAUSE
        self._leave()
        self._changed()

    def _leave(self) -> None:
        self._loop.remove_writer(self._fd)
        self._timer = self._loop.call_later(self._pause, self._come_back)

    def _come_back(self) -> None:
        self._timer = None
        self._back_at = self._loop.time()
        self._loop.add_writer(self._fd, self._woken)
        if self._poll.poll(0):
            self._woken()

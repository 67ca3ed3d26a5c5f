# SPDX-License-Identifier: Apache-2.0
"""Wakes at each change of PID 1's mount table.

The kernel raises POLLERR and POLLPRI on an open mountinfo, once per change, and poll itself consumes that. The
event loop sees POLLERR as writable. After a wake-up the descriptor is left out of the loop for a moment, so that
a storm of mounts costs a few wake-ups a second; what happens meanwhile is still pending when it comes back."""

from __future__ import annotations

import asyncio
import os
from typing import Callable, Optional

COALESCE = 0.1
COALESCE_MOST = 0.5
"""Seconds out of the loop after a wake-up; twice as long each time that a change was waiting, up to the second."""


class MountWatch:
    """Calls `changed` in the loop's thread: at once, and then no more often than every COALESCE seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        """Raises OSError where PID 1's mountinfo cannot be opened."""
        self._loop = loop
        self._changed = changed
        self._fd = os.open("/proc/1/mountinfo", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        self._timer: Optional[asyncio.TimerHandle] = None
        self._pause = COALESCE
        self._back_at = 0.0
        loop.add_writer(self._fd, self._woken)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_writer(self._fd)
        os.close(self._fd)

    def _woken(self) -> None:
        self._loop.remove_writer(self._fd)
        at_once = self._loop.time() - self._back_at < COALESCE / 2
        self._pause = min(COALESCE_MOST, self._pause * 2) if at_once else COALESCE
        self._timer = self._loop.call_later(self._pause, self._listen)
        self._changed()

    def _listen(self) -> None:
        self._timer = None
        self._back_at = self._loop.time()
        self._loop.add_writer(self._fd, self._woken)

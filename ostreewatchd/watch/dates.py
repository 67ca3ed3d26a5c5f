# SPDX-License-Identifier: Apache-2.0
"""Wakes at a date of the wall clock, and each time that somebody sets that clock.

The event loop's timers are of CLOCK_MONOTONIC, which knows no dates and stands still while the host sleeps. Source:
timerfd_create(2): TFD_TIMER_CANCEL_ON_SET. Python has it from 3.13 on."""

from __future__ import annotations

import ctypes
import errno
import os
from typing import Callable, Optional

from ostreewatchd.lean import asyncio

_CLOCK_REALTIME = 0
_ABSTIME, _CANCEL_ON_SET = 1, 2
_NEVER = 2.0**40
"""Seconds since the epoch: a timer has to be armed to tell that the clock was set."""
_libc = ctypes.CDLL(None, use_errno=True)


class _Timer(ctypes.Structure):
    """struct itimerspec."""

    _fields_ = [(name, ctypes.c_long) for name in ("every", "every_nanoseconds", "at", "at_nanoseconds")]


class DateWatch:
    """Calls `changed` in the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        """Raises OSError where no descriptor is left."""
        self._loop = loop
        self._changed = changed
        self._fd = _check(_libc.timerfd_create(_CLOCK_REALTIME, os.O_CLOEXEC | os.O_NONBLOCK))
        loop.add_reader(self._fd, self._woken)
        self.arm(None)

    def arm(self, date: Optional[float]) -> None:
        """To wake at this date, in seconds since the epoch, and no more at another; None: at none. One that is past is
        now."""
        timer = _Timer(0, 0, max(1, int(min(date if date is not None else _NEVER, _NEVER))), 0)
        try:
            _check(_libc.timerfd_settime(self._fd, _ABSTIME | _CANCEL_ON_SET, ctypes.byref(timer), None))
        except OSError as error:
            if error.errno != errno.ECANCELED:
                raise
            # The clock was set since it was armed. It is armed anew, and read(2) does not tell of that any more.
            self._loop.call_soon(self._changed)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _woken(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ECANCELED:
                raise
        self._changed()


def _check(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result

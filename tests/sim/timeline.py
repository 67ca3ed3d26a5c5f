# SPDX-License-Identifier: Apache-2.0
"""Virtual time: one line for all that happens on the node, and the clocks that are read off it."""

from __future__ import annotations

import heapq
import itertools
import time
from typing import Any, Callable

WALL_AT_START = 1_800_000_000.0


class Timer:
    """Something due at a time; what `call_later` of an event loop gives."""

    __slots__ = ("at", "cancelled", "function")

    def __init__(self, at: float, function: Callable[[], None]) -> None:
        self.at, self.function, self.cancelled = at, function, False

    def when(self) -> float:
        return self.at

    def cancel(self) -> None:
        self.cancelled = True


class Timeline:
    """Moves only when somebody waits: each piece of work says how long it takes, and what is due meanwhile happens
    within it, however deep. Also the clocks: since boot, and the wall's, which may be stepped."""

    def __init__(self) -> None:
        self.now = 50_000.0
        """Seconds that nobody on the node can read: neither a reboot nor a step moves them."""
        self.booted = 0.0
        self.wall_offset = 0.0
        self._due: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()

    def boottime(self) -> float:
        return self.now - self.booted

    def wall(self) -> float:
        return WALL_AT_START + self.now + self.wall_offset

    def call_later(self, delay: float, function: Callable[..., None], *arguments: Any) -> Timer:
        timer = Timer(self.now + max(0.0, delay), (lambda: function(*arguments)) if arguments else function)
        heapq.heappush(self._due, (timer.at, next(self._order), timer))
        return timer

    def next_due(self) -> float:
        """When the next thing happens; infinity if nothing does."""
        while self._due and self._due[0][2].cancelled:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else float("inf")

    def advance(self, seconds: float) -> None:
        end = self.now + seconds
        while self.next_due() <= end:
            timer = heapq.heappop(self._due)[2]
            self.now = max(self.now, timer.at)
            timer.function()
        self.now = max(self.now, end)


class Loop:
    """The event loop of one process: its timers end with it, and tell the time since boot."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._timers: list[Timer] = []
        self.closed = False

    def time(self) -> float:
        return self._timeline.now

    def call_later(self, delay: float, function: Callable[..., None], *arguments: Any) -> Timer:
        timer = self._timeline.call_later(delay, lambda: None if self.closed else function(*arguments))
        self._timers = [one for one in self._timers if not one.cancelled and one.at >= self._timeline.now]
        self._timers.append(timer)
        return timer

    def close(self) -> None:
        self.closed = True
        for timer in self._timers:
            timer.cancel()


class WallClock:
    """What the product's modules have as `time`."""

    strftime = staticmethod(time.strftime)
    CLOCK_BOOTTIME = time.CLOCK_BOOTTIME

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def time(self) -> float:
        return self._timeline.wall()

    def gmtime(self) -> time.struct_time:
        return time.gmtime(self._timeline.wall())

    def monotonic(self) -> float:
        return self._timeline.boottime()

    def clock_gettime(self, _: int) -> float:
        return self._timeline.boottime()

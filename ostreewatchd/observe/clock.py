# SPDX-License-Identifier: Apache-2.0
"""Notices that the wall clock was set, for whoever looks again and again: between two looks it has gone on by another
time than CLOCK_BOOTTIME, which nobody sets. Source: clock_gettime(2)."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.model import ClockStep

_SMALLEST = 60.0
"""Seconds. To discipline a clock (adjtimex(2)) moves it by less than that from look to look."""
_MAX_STEPS = 16


class Clock:
    """Kept from look to look."""

    def __init__(self) -> None:
        self._apart: Optional[float] = None
        self._steps: tuple[ClockStep, ...] = ()

    def steps(self, now: float, boottime: float) -> tuple[ClockStep, ...]:
        """All that was noticed up to now, oldest first. Of many the oldest are told as one."""
        apart = now - boottime
        by = apart - self._apart if self._apart is not None else 0.0
        self._apart = apart
        if abs(by) >= _SMALLEST:
            self._steps = (*self._steps, ClockStep(by=by, boottime=boottime))
        if len(self._steps) > _MAX_STEPS:
            first, second = self._steps[:2]
            self._steps = (ClockStep(by=first.by + second.by, boottime=second.boottime), *self._steps[2:])
        return self._steps

# SPDX-License-Identifier: Apache-2.0
"""Maintenance windows: times of the week, in UTC, outside of which nothing is restarted.

By the wall clock, as their author means them: after a clock step they open by the new time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

from ostreewatchd.model import Window

_WEEK = 7 * 24 * 60
_EPOCH = 3 * 24 * 60
"""Minutes from a Monday to 1970-01-01, a Thursday."""


def opens_at(windows: Sequence[Window], now: float) -> Optional[float]:
    """When the next window opens, in seconds since the epoch; None while one is open, or where none is set."""
    if not windows:
        return None
    minute = int(now // 60)
    of_week = (minute + _EPOCH) % _WEEK
    if any((of_week - window.start) % _WEEK < window.minutes for window in windows):
        return None
    return 60.0 * (minute + min((window.start - of_week) % _WEEK for window in windows))

# SPDX-License-Identifier: Apache-2.0
"""A moment as a day for people, where no clock module is to be had."""

from __future__ import annotations

_DAY = 86400


def moment_of(moment: float) -> str:
    """`2027-01-15 08:00 UTC`; `moment` in seconds since the epoch."""
    minutes = int(moment % _DAY) // 60
    return f"{day_of(moment)} {minutes // 60:02d}:{minutes % 60:02d} UTC"


def day_of(moment: float) -> str:
    """`2027-01-15`, UTC; `moment` in seconds since the epoch. Source: the Gregorian calendar, in its cycle of four
    hundred years, whose years begin in March so that the leap day is the last."""
    days = int(moment // _DAY) + 719468
    era, day = divmod(days, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    first = (153 * month + 2) // 5
    year += era * 400 + (1 if month >= 10 else 0)
    return f"{year:04d}-{month + 3 if month < 10 else month - 9:02d}-{day - first + 1:02d}"

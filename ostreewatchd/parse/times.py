# SPDX-License-Identifier: Apache-2.0
"""Durations (`2h`, `90min`) and maintenance windows (`Sat 02:00-04:00, Mon-Fri 23:30-01:00`), as people write them."""

from __future__ import annotations

import re

from ostreewatchd.model import Window

_SCALE = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY, _WEEK = 24 * 60, 7 * 24 * 60
_MAX_WINDOWS = 50
_WINDOW = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?\s+)?"
    r"(?P<from>[0-2]?\d:[0-5]\d)\s*-\s*(?P<to>[0-2]?\d:[0-5]\d)(?:\s+(?P<zone>\S+))?",
    re.ASCII | re.IGNORECASE,
)


def duration(text: str) -> float:
    """Seconds, which may be none or less. Raises ValueError in words for the one who wrote it."""
    unit = next((unit for unit in ("ms", "min", "s", "h", "d") if text.endswith(unit)), "")
    number = text[: len(text) - len(unit)].strip()
    try:
        return float(number) * _SCALE.get(unit, 1.0)
    except ValueError:
        raise ValueError("must be a number of seconds, or end in ms, s, min, h or d") from None


def windows(text: str) -> tuple[Window, ...]:
    """Separated by commas, each `[DAY[-DAY]] HH:MM-HH:MM [UTC]`; without a day it is each day's, and one that ends no
    later than it begins ends on the next day. Raises ValueError."""
    found: list[Window] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        found += _windows(part)
    if len(found) > _MAX_WINDOWS:
        raise ValueError(f"more than {_MAX_WINDOWS} windows")
    return tuple(dict.fromkeys(found))


def _windows(part: str) -> list[Window]:
    match = _WINDOW.fullmatch(part)
    if match is None:
        raise ValueError(f"{part[:40]!r} is not of the form [DAY[-DAY]] HH:MM-HH:MM")
    if (match["zone"] or "UTC").upper() != "UTC":
        raise ValueError(f"{match['zone'][:40]!r}: times are in UTC and in no other zone")
    start, end = _minute(match["from"]), _minute(match["to"])
    minutes = end - start if end > start else end - start + _DAY
    first, last = match["first"] or "mon", match["last"] or match["first"] or "sun"
    for name in (first, last):
        if name.lower() not in _DAYS:
            raise ValueError(f"{name!r} is no day: {', '.join(day.capitalize() for day in _DAYS)}")
    begin = _DAYS.index(first.lower())
    count = (_DAYS.index(last.lower()) - begin) % 7 + 1
    return [Window(start=((begin + day) % 7 * _DAY + start) % _WEEK, minutes=minutes) for day in range(count)]


def _minute(text: str) -> int:
    """Of the day. 24:00 is the end of one."""
    hour, _, minute = text.partition(":")
    total = int(hour) * 60 + int(minute)
    if total > _DAY:
        raise ValueError(f"{text!r} is no time of the day")
    return total

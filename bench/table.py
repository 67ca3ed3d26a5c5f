# SPDX-License-Identifier: Apache-2.0
"""The figures as a table: the middle one, the spread, the ratio, and the goal beside it."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple, Optional


class Row(NamedTuple):
    what: str
    figure: str
    spread: str = ""
    ratio: str = ""
    goal: str = ""
    met: Optional[bool] = None
    """None where DESIGN asks for nothing."""


_HEAD = Row("measured", "median", "min .. max", "ratio", "goal")


def show(rows: Sequence[Row]) -> str:
    """Aligned text."""
    lines = [(*row[:5], {None: "", True: "met", False: "NOT MET"}[row.met]) for row in (_HEAD, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(6)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in lines]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(text)


def milliseconds(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e6:.2f} ms"


def times(what: str, nanoseconds: Sequence[float], **more: Any) -> Row:
    """A row of repeated times."""
    spread = f"{min(nanoseconds) / 1e6:.2f} .. {max(nanoseconds) / 1e6:.2f}"
    return Row(what, milliseconds(statistics.median(nanoseconds)), spread)._replace(**more)


def ratio(these: Sequence[float], those: Sequence[float]) -> float:
    """The middle one of the ratios of repetitions that ran side by side: noise hits both."""
    return statistics.median([this / that for this, that in zip(these, those)])

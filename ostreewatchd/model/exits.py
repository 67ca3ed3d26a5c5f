# SPDX-License-Identifier: Apache-2.0
"""How a program ends, for who called it: one set of exit statuses for all three."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """An exit status. `says`: what it means, in --help and in README.md."""

    NOTHING_OWED = 0, "nothing owed, or done what was asked for"
    OWED = 1, "something is owed, refused, or its proof is still awaited"
    USAGE = 2, "usage"
    COULD_NOT_KNOW = (
        3,
        ("could not know (also where it cannot be judged what a writable CNI directory in a container shows)"),
    )
    NOT_CURED = 4, "acted and not cured"

    says: str

    def __new__(cls, number: int, says: str) -> Exit:
        made = int.__new__(cls, number)
        made._value_ = number
        made.says = says
        return made

    def __str__(self) -> str:
        # In the journal; Python 3.11 began to do so by itself.
        return str(int(self))


def all_exits() -> str:
    """All of them in one sentence."""
    return f"exit status: {', '.join(f'{one} {one.says}' for one in Exit)}"

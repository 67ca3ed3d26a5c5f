# SPDX-License-Identifier: Apache-2.0
"""Makes any text safe to show."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text that cannot move a terminal's cursor or forge a line: names come from files that anybody on the
    node may have made."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)

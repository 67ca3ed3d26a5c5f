# SPDX-License-Identifier: Apache-2.0
"""The files that a process has mapped to execute. Source: proc_pid_maps(5)."""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_FILES = 200
_LINE = re.compile(rb"([0-9a-f]+-[0-9a-f]+) ..x. [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ ([1-9][0-9]*) +(/.*)")
_GONE = " (deleted)"


class Mapped(NamedTuple):
    """A file. The device is left out: behind an overlay it is another one than a stat gives."""

    path: str
    ino: int
    range: str
    """Of the first mapping: its name below /proc/<pid>/map_files."""
    deleted: bool


def executed(data: bytes) -> tuple[Mapped, ...]:
    """Each file once, in the order of addresses; bounded."""
    found: dict[tuple[str, int], Mapped] = {}
    for line in data.splitlines():
        match = _LINE.fullmatch(line)
        if match is None or len(found) >= MAX_FILES:
            continue
        path = match.group(3).decode("utf-8", "surrogateescape")
        deleted = path.endswith(_GONE)
        path = path[: -len(_GONE)] if deleted else path
        ino = int(match.group(2))
        found.setdefault((path, ino), Mapped(path, ino, match.group(1).decode(), deleted))
    return tuple(found.values())

# SPDX-License-Identifier: Apache-2.0
"""/proc/<pid>/stat: parent and start of a process.

Source: proc_pid_stat(5)."""

from __future__ import annotations

from typing import NamedTuple, Optional


class ProcessStat(NamedTuple):
    command: str
    parent: int
    start_ticks: int
    """Since boot (CLOCK_BOOTTIME), in units of sysconf(_SC_CLK_TCK)."""


def parse(data: bytes) -> Optional[ProcessStat]:
    """None if the line is torn. The command may hold spaces, parentheses and newlines: it ends at the last
    closing parenthesis."""
    start, end = data.find(b"("), data.rfind(b")")
    if not 0 <= start < end:
        return None
    fields = data[end + 1 :].split()
    try:
        return ProcessStat(data[start + 1 : end].decode("utf-8", "replace"), int(fields[1]), int(fields[19]))
    except (IndexError, ValueError):
        return None

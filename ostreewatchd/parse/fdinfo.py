# SPDX-License-Identifier: Apache-2.0
"""What an inotify descriptor watches. Source: proc_pid_fdinfo(5); fs/notify/fdinfo.c (the device is that of the
filesystem, and not always a st_dev)."""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE = re.compile(rb"inotify wd:[0-9a-f]{1,16} ino:([0-9a-f]{1,16}) sdev:([0-9a-f]{1,16}) ")


class Mark(NamedTuple):
    """An inode that is watched, as the kernel names it: to be compared with another mark alone."""

    ino: int
    device: int


def inotify_marks(data: bytes) -> frozenset[Mark]:
    """All of one descriptor."""
    return frozenset(
        Mark(int(match.group(1), 16), int(match.group(2), 16))
        for match in (_LINE.match(line) for line in data.split(b"\n"))
        if match is not None
    )

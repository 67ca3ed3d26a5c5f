# SPDX-License-Identifier: Apache-2.0
"""PID 1's mount table, kept from look to look for as long as the kernel says that nothing changed.

On a node with a thousand containers the kernel takes longer to write it than the rest of a look takes. The open file
tells by poll(2) whether the table changed since the last poll, and is exact (proc_pid_mountinfo(5)). Options of a
filesystem can change without a word, so it is read anew now and then."""

from __future__ import annotations

import os
import select
import time
from typing import Optional

from ostreewatchd.parse.mountinfo import MountTable, parse
from ostreewatchd.peers import proc

_PATH = "/proc/1/mountinfo"
_MOST_AGE = 60.0
"""Seconds."""


class HostMounts:
    """Held by who looks more than once."""

    def __init__(self) -> None:
        self._owner: tuple[int, Optional[int]] = (0, None)
        self._poll = select.poll()
        self._fd = -1
        self._table: Optional[MountTable] = None
        self._read_at = 0.0

    def close(self) -> None:
        if self._fd >= 0:
            self._poll.unregister(self._fd)
            os.close(self._fd)
            self._fd = -1
        self._table = None

    def table(self) -> Optional[MountTable]:
        """The table now; None if PID 1 has no /proc entry. Raises Unreadable."""
        # A child of ours shares the open file and would take our events; PID 1 may have another namespace.
        owner = (os.getpid(), proc.mount_namespace(1))
        if self._fd < 0 or owner != self._owner:
            self._open(owner)
        elif not self._poll.poll(0) and time.monotonic() - self._read_at < _MOST_AGE:
            return self._table
        if self._fd < 0:
            return None
        self._read_at = time.monotonic()
        try:
            os.lseek(self._fd, 0, os.SEEK_SET)
            data = proc.read_all(self._fd)
        except OSError as error:
            raise proc.Unreadable(f"{_PATH}: {error.strerror}") from error
        if data is None:
            raise proc.Unreadable(f"{_PATH}: larger than {proc.MAX_FILE} bytes")
        self._table = MountTable(parse(data))
        return self._table

    def _open(self, owner: tuple[int, Optional[int]]) -> None:
        self.close()
        try:
            self._fd = os.open(_PATH, os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError):
            return
        except OSError as error:
            raise proc.Unreadable(f"{_PATH}: {error.strerror}") from error
        # Not POLLIN: that is always there. POLLERR comes unasked.
        self._poll.register(self._fd, select.POLLPRI)
        self._owner = owner

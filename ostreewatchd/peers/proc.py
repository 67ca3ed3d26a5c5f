# SPDX-License-Identifier: Apache-2.0
"""Processes: what /proc says of them. A process may vanish between any two lines: then the answer is None."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from typing import Optional

from ostreewatchd.parse import stat as stat_file
from ostreewatchd.parse.mountinfo import MountTable
from ostreewatchd.parse.stat import ProcessStat
from ostreewatchd.peers.aside import Aside
from ostreewatchd.peers.paths import Root

TICKS = os.sysconf("SC_CLK_TCK")
MAX_FILE = 64 << 20
"""A mountinfo of a hundred thousand lines is some ten MiB."""
_CAP_SYS_ADMIN = 21
_CHUNK = 16 << 10
"""Bytes asked for at once."""
_ONE_RECORD = frozenset(("cgroup", "comm", "stat", "status"))
"""Files that the kernel makes as a whole (single_open(9)): one that is shorter than what was asked for has ended. Of
those of many records (mountinfo) it gives as many as fill a page."""


class Unreadable(Exception):
    """A process is there and may not be looked at; `what` says which file and why."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def pids() -> list[int]:
    """All processes that this one may see."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def mount_namespace(pid: int) -> Optional[int]:
    """The inode of the process's mount namespace. Raises Unreadable without CAP_SYS_PTRACE."""
    try:
        # The link's text has the inode that a stat gives, and costs half of it. A zombie has no namespace: ENOENT.
        return int(os.readlink(f"/proc/{pid}/ns/mnt")[len("mnt:[") : -1])
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        raise Unreadable(f"/proc/{pid}/ns/mnt: {error.strerror}") from error


def read(pid: int, name: str) -> Optional[bytes]:
    """A whole file of the process. Raises Unreadable, also for a file of absurd size."""
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None  # It is about to end: its namespaces are gone already.
        raise Unreadable(f"/proc/{pid}/{name}: {error.strerror}") from error
    try:
        data = read_all(fd, is_one=name in _ONE_RECORD)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        raise Unreadable(f"/proc/{pid}/{name}: {error.strerror}") from error
    finally:
        os.close(fd)
    if data is None:
        raise Unreadable(f"/proc/{pid}/{name}: larger than {MAX_FILE} bytes")
    return data


def read_all(fd: int, *, is_one: bool = False) -> Optional[bytes]:
    """Up to the end; None if that does not come within MAX_FILE. `is_one`: it is a file of one record."""
    # The kernel gives a page at a time, however large the buffer is.
    data = os.read(fd, _CHUNK)
    if is_one and len(data) < _CHUNK:
        return data
    chunk = os.read(fd, _CHUNK) if data else b""
    if not chunk:
        return data
    chunks, total = [data], len(data)
    while chunk:
        chunks.append(chunk)
        total += len(chunk)
        if total > MAX_FILE:
            return None
        chunk = os.read(fd, _CHUNK)
    return b"".join(chunks)


def stat(pid: int) -> Optional[ProcessStat]:
    data = read(pid, "stat")
    return stat_file.parse(data) if data else None


def root(pid: int, mounts: Optional[MountTable] = None, aside: Optional[Aside] = None) -> Optional[Root]:
    """The root directory of the process, to resolve paths in; the rest as in Root. Raises Unreadable."""
    try:
        return Root(f"/proc/{pid}/root", mounts, aside)
    except (FileNotFoundError, ProcessLookupError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(f"/proc/{pid}/root: {error.strerror}") from error


def user(pid: int) -> Optional[int]:
    """The effective user; not the owner of /proc/<pid>, which is root for any process that is not dumpable."""
    for line in (read(pid, "status") or b"").split(b"\n"):
        if line.startswith(b"Uid:"):
            return int(line.split()[2])
    return None


def may_mount(pid: int) -> bool:
    """Whether it or what it executes can have CAP_SYS_ADMIN, which mount(2) and setns(2) ask for; true also where that
    cannot be told. Raises Unreadable.

    Source: capabilities(7), the bounding set; it does not grow but in a new user namespace."""
    for line in (read(pid, "status") or b"").split(b"\n"):
        if line.startswith(b"CapBnd:"):
            return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)
    return True


def program(pid: int) -> Optional[str]:
    """The path of its program file as the process sees it; None if it has none (a kernel thread) or is gone. Raises
    Unreadable.

    Source: proc_pid_exe(5)."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        raise Unreadable(f"/proc/{pid}/exe: {error.strerror}") from error


def program_mount_id(pid: int) -> Optional[int]:
    """The id in mountinfo of the mount that its program file is on; None if the process is gone. Raises Unreadable.

    Source: proc_pid_fdinfo(5), `mnt_id`: kernels that know no STATX_MNT_ID have it, too."""
    try:
        fd = os.open(f"/proc/{pid}/exe", os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        raise Unreadable(f"/proc/{pid}/exe: {error.strerror}") from error
    try:
        for line in (read(os.getpid(), f"fdinfo/{fd}") or b"").splitlines():
            if line.startswith(b"mnt_id:"):
                return int(line.split()[1])
        return None
    finally:
        os.close(fd)


def command_line(pid: int) -> tuple[str, ...]:
    data = read(pid, "cmdline")
    return tuple(part.decode("utf-8", "replace") for part in (data or b"").rstrip(b"\0").split(b"\0") if part)


def named(*commands: str) -> Iterator[int]:
    """Processes whose command name is one of these."""
    wanted = {command.encode() for command in commands}
    for pid in pids():
        try:
            if (read(pid, "comm") or b"").rstrip(b"\n") in wanted:
                yield pid
        except Unreadable:
            continue


def boottime() -> float:
    """Seconds since boot, suspended time included: the clock of start_ticks."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_epoch() -> float:
    """When the machine booted by the wall clock as it is set now; it moves when that clock is set."""
    return time.time() - boottime()

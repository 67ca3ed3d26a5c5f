# SPDX-License-Identifier: Apache-2.0
"""System calls that Python has no words for: clone3(2) into a cgroup and into namespaces, setns(2), pivot_root(2)."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
from collections.abc import Sequence
from typing import NamedTuple

NEWNS, NEWPID = 0x20000, 0x20000000
_INTO_CGROUP = 0x200000000
_DETACH = 2
_AT_EMPTY_PATH = 0x1000
_STATX_ATTR_MOUNT_ROOT = 0x2000
_CLONE3 = 435
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
# With the interpreter's lock held: the child has no other thread that could give it back.
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _Arguments(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls", "set_tid",
            "set_tid_size", "cgroup",
        )
    ]  # fmt: skip


def clone(flags: int = 0, *, cgroup: int | None = None, pid: int | None = None) -> int:
    """fork(2) with flags. `cgroup`: a descriptor of its directory; `pid`: the number that the child gets."""
    arguments = _Arguments(flags=flags, exit_signal=int(signal.SIGCHLD))
    if cgroup is not None:
        arguments.flags |= _INTO_CGROUP
        arguments.cgroup = cgroup
    if pid is not None:
        wanted = (ctypes.c_int * 1)(pid)
        arguments.set_tid, arguments.set_tid_size = ctypes.addressof(wanted), 1
    return _checked(_libc.syscall(_CLONE3, ctypes.byref(arguments), ctypes.sizeof(arguments)), "clone3")


def enter_mounts_of(pid: int) -> None:
    """Into the mount namespace of another process, and its root."""
    fd = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    _checked(_libc.setns(fd, NEWNS), "setns")
    os.close(fd)


def pivot(root: str) -> None:
    """`root`, which is a mount, becomes `/`; what was there goes."""
    os.chdir(root)
    _checked(_libc.syscall(_PIVOT_ROOT[platform.machine()], b".", b"."), "pivot_root")
    _checked(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")


class Seen(NamedTuple):
    """What a path is: its identity, whether its mount is read-only, and whether a mount is right there."""

    dev: int
    ino: int
    read_only: bool
    is_mount: bool


def identities(paths: Sequence[str], root: int | None = None) -> list[Seen | None]:
    """What each absolute path is; None: there is none. `root`: a directory to start from in place of the process's
    own."""
    found: list[Seen | None] = []
    for path in paths:
        try:
            fd = os.open(path if root is None else "." + path, os.O_PATH | os.O_CLOEXEC, dir_fd=root)
        except OSError:
            found.append(None)
            continue
        what, where = os.fstat(fd), os.fstatvfs(fd)
        buffer = ctypes.create_string_buffer(256)
        _checked(_libc.statx(fd, b"", _AT_EMPTY_PATH, 0, buffer), "statx")
        (attributes,) = struct.unpack_from("=Q", buffer.raw, 8)
        os.close(fd)
        read_only, is_mount = bool(where.f_flag & os.ST_RDONLY), bool(attributes & _STATX_ATTR_MOUNT_ROOT)
        found.append(Seen(what.st_dev, what.st_ino, read_only, is_mount))
    return found


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result

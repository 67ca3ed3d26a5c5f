# SPDX-License-Identifier: Apache-2.0
"""The few system calls that Python 3.9 does not offer: mounts, namespaces, openat2, file attributes."""

import ctypes
import fcntl
import os
import struct
from pathlib import Path
from typing import Union

MS_RDONLY = 0x1
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000
O_PATH = 0o10000000  # os.O_PATH is there from 3.10 on

_OPENAT2 = 437
_RESOLVE_IN_ROOT = 0x10
_GETFLAGS = 0x80086601
_SETFLAGS = 0x40086602
_IMMUTABLE = 0x10

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def bind(source: Path, target: Path, read_only: bool = False) -> None:
    """Bind mount; read-only takes a second call, as for mount(8)."""
    _checked(_libc.mount(os.fsencode(source), os.fsencode(target), None, MS_BIND, None), str(target))
    if read_only:
        flags = MS_REMOUNT | MS_BIND | MS_RDONLY
        _checked(_libc.mount(None, os.fsencode(target), None, flags, None), str(target))


def own_mounts() -> None:
    """Leave the mount namespace; from here on no mount reaches another one."""
    _checked(_libc.unshare(CLONE_NEWNS), "unshare")
    _checked(_libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "/")


def unmount(target: str) -> None:
    """Detach a mount, whoever uses it."""
    _checked(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def enter_network(namespace: Union[int, str]) -> None:
    """Move the calling thread, and no other, into a network namespace."""
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC) if isinstance(namespace, str) else namespace
    try:
        _checked(_libc.setns(descriptor, CLONE_NEWNET), "setns")
    finally:
        if isinstance(namespace, str):
            os.close(descriptor)


def open_in(root: str, path: str) -> int:
    """An O_PATH descriptor of `path` as somebody with that root directory sees it."""
    root_fd = os.open(root, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        how = struct.pack("QQQ", O_PATH | os.O_CLOEXEC, 0, _RESOLVE_IN_ROOT)
        return _checked(_libc.syscall(_OPENAT2, root_fd, os.fsencode(path), how, len(how)), path)
    finally:
        os.close(root_fd)


def clear_immutable(path: Path) -> None:
    """chattr -i: libostree makes deployment directories immutable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = struct.unpack("l", fcntl.ioctl(descriptor, _GETFLAGS, struct.pack("l", 0)))[0]
        if flags & _IMMUTABLE:
            fcntl.ioctl(descriptor, _SETFLAGS, struct.pack("l", flags & ~_IMMUTABLE))
    finally:
        os.close(descriptor)

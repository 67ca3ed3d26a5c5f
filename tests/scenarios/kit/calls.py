# SPDX-License-Identifier: Apache-2.0
"""System calls that few worlds need."""

from __future__ import annotations

import ctypes
import os
import stat

from tests.host.fakehost import mount

_OPEN_TREE, _MOVE_MOUNT = 428, 429
_AT_FDCWD = -100
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_BENEATH = 0x4, 0x200
_libc = ctypes.CDLL(None, use_errno=True)


def move_beneath(source: str, target: str) -> None:
    """Put the mount at `source` beneath the one at `target`, which then can be taken away (Linux 6.5)."""
    tree = _call(_OPEN_TREE, _AT_FDCWD, source.encode(), _OPEN_TREE_CLONE)
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_BENEATH
    try:
        _call(_MOVE_MOUNT, tree, b"", _AT_FDCWD, target.encode(), flags)
    finally:
        os.close(tree)


def _call(number: int, *arguments: int | bytes) -> int:
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def silent_filesystem(point: str) -> None:
    """Mount a FUSE filesystem that nobody serves: whoever looks at it hangs."""
    os.mknod("/tmp/fuse", stat.S_IFCHR | 0o600, os.makedev(10, 229))
    fd = os.open("/tmp/fuse", os.O_RDWR)
    mount("remote", point, "fuse", data=f"fd={fd},rootmode=40000,user_id=0,group_id=0")

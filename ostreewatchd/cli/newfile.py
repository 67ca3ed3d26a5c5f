# SPDX-License-Identifier: Apache-2.0
"""Writes a file that only its owner can read: whole or not at all, and never through a link."""

from __future__ import annotations

import errno
import os
import stat


def write(path: str, data: bytes) -> None:
    """Make or replace the regular file `path`, mode 0600. It is written under another name beside it, which then takes
    its place, so a link at `path` is never followed; it is refused, as is whatever else is no regular file: that is
    hardly what was meant. Raises OSError."""
    folder, name = os.path.split(path)
    if not name:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    directory = os.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check(name, directory, path)
        aside = f".{name[:200]}.{os.urandom(6).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC  # O_EXCL follows no link.
        fd = os.open(aside, flags, 0o600, dir_fd=directory)
        try:
            with os.fdopen(fd, "wb") as file:
                os.fchmod(file.fileno(), 0o600)  # Whatever the umask.
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(aside, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(aside, dir_fd=directory)
            raise
    finally:
        os.close(directory)


def _check(name: str, directory: int, path: str) -> None:
    try:
        mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "it is a symbolic link", path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EEXIST, "it is there and is no regular file (standard output is -)", path)

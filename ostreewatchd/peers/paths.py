# SPDX-License-Identifier: Apache-2.0
"""Resolves a path inside a given root and says what it is, without ever following a link out of that root.

The walk is our own, a component at a time with O_NOFOLLOW from a descriptor of the directory before: a link is
read and walked inside the root, and `..` goes back along the descriptors, so nothing leads out and no rename on
the way can change that. openat2(2) would do it in one call, but RestrictSUIDSGID= of the watcher's sandbox
answers that with ENOSYS (systemd.exec(5)), and kernels before 5.6 have none.

Nothing is opened but with O_PATH, and what is listed or read: no lock, no access time by looking. A filesystem that
may not answer (FUSE, a network's) is not stepped on, wherever a link leads: a lookup there cannot be interrupted."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Optional

from ostreewatchd.model import Identity
from ostreewatchd.parse.mountinfo import Mount, MountTable

_AT_EMPTY_PATH = 0x1000
_AT_STATX_DONT_SYNC = 0x4000
_STATX_BASIC = 0x7FF
_STATX_BTIME = 0x800
_STATX_MNT_ID = 0x1000
_STATX_MNT_ID_UNIQUE = 0x4000
_STATX_SIZE = 256
LIST_LIMIT = 4096
_CHUNK = 64 << 10
_MAX_LINKS = 40
_MAX_COMPONENTS = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_libc.statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)


class MayNotAnswer(OSError):
    """The path leads onto a filesystem that may not answer; nothing there was touched."""

    def __init__(self, mount: Mount, path: str) -> None:
        super().__init__(errno.EAGAIN, f"{mount.point} is {mount.fstype}, which may not answer: not touched", path)
        self.mount = mount


class What(NamedTuple):
    """What a path is. `mount_id` (as in mountinfo; Linux 5.8), `serial` (unique, growing; Linux 6.8) and
    `born_at` are None where kernel or filesystem has none."""

    identity: Identity
    mount_id: Optional[int]
    serial: Optional[int]
    born_at: Optional[float]
    links: int
    is_directory: bool
    modified: tuple[int, int] = (0, 0)
    """Seconds and nanoseconds: for a directory, when a name in it came or went."""


class Root:
    """A root directory to resolve in, held by a descriptor; closed by `with`."""

    def __init__(self, path: str, mounts: Optional[MountTable] = None) -> None:
        """`mounts`: those of the process whose root it is. Without them nobody looks where a path leads. Raises
        OSError: ENOENT if the process is gone, EACCES without CAP_SYS_PTRACE."""
        self.mounts = mounts
        self.step: Optional[Callable[[int], None]] = None
        """Called with the device of each directory on a way, before anything is looked up in it; raises to stop."""
        self._fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Root:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def what(self, path: str, *, links: bool = True) -> What:
        """What the absolute `path` is in this root. `links=False` refuses symbolic links (ELOOP): a mount
        point as mountinfo spells it has none. Raises OSError."""
        with self._opened(path, os.O_PATH, links) as fd:
            return _statx(fd)

    def names(self, path: str) -> list[str]:
        """What the directory lists, sorted, at the most some thousand names. Raises OSError."""
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK, True) as fd:
            found = []
            with os.scandir(fd) as entries:
                for entry in entries:
                    found.append(entry.name)
                    if len(found) >= LIST_LIMIT:
                        break
        return sorted(found)

    def read(self, path: str, limit: int) -> bytes:
        """The first `limit` + 1 bytes of a regular file: one more than the limit shows that it is longer.
        Raises OSError; also for what is no regular file, which is not opened: to open a device does something."""
        with self._opened(path, os.O_PATH, True) as place:
            if not stat.S_ISREG(os.fstat(place).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            fd = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            data = chunk = os.read(fd, min(limit + 1, _CHUNK))
            while chunk and len(data) <= limit:
                chunk = os.read(fd, min(limit + 1 - len(data), _CHUNK))
                data += chunk
            return data
        finally:
            os.close(fd)

    def readlink(self, path: str) -> str:
        """The text of a symbolic link. Raises OSError."""
        parent, _, name = path.rstrip("/").rpartition("/")
        with self._opened(parent or "/", _DIRECTORY, True) as fd:
            return os.readlink(name, dir_fd=fd)

    def modified_at(self, path: str) -> float:
        """When the file was changed last. Raises OSError."""
        with self._opened(path, os.O_PATH, True) as fd:
            return os.fstat(fd).st_mtime

    def exists(self, path: str) -> bool:
        """Whether the path is there. Raises OSError for anything but yes and no."""
        try:
            self.what(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    @contextmanager
    def _opened(self, path: str, flags: int, links: bool) -> Iterator[int]:
        fd = _walk(self._fd, path, flags, links, self.mounts, self.step)
        try:
            yield fd
        finally:
            os.close(fd)


_DIRECTORY = os.O_PATH | os.O_DIRECTORY


def _walk(
    root: int,
    path: str,
    flags: int,
    links: bool,
    mounts: Optional[MountTable],
    step: Optional[Callable[[int], None]] = None,
) -> int:
    """A descriptor of `path` inside `root`, opened with `flags`. `links=False`: a symbolic link is ELOOP."""
    doubtful = mounts.mounts.doubtful if mounts is not None else frozenset()
    here = ""  # Where the walk is, without links.
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    trail = [root]
    followed = steps = 0
    if step is not None:
        step(_device(root))
    asked = False  # Whether the last of `trail` was opened as asked, and not on the way.
    try:
        while todo:
            steps += 1
            name = todo.pop()
            asked = False
            if name == "..":
                if len(trail) > 1:
                    os.close(trail.pop())
                    here = here.rpartition("/")[0]
                continue
            if steps > _MAX_COMPONENTS:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
            below = f"{here}/{name}"
            if mounts is not None and below in doubtful:
                mount = mounts.stops(below)
                if mount is not None:
                    raise MayNotAnswer(mount, path)
            try:
                fd = os.open(name, (_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC) if todo else flags, dir_fd=trail[-1])
            except OSError as error:
                # What a link answers: ENOTDIR where a directory was asked for, else ELOOP.
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise OSError(error.errno, error.strerror, path) from None
                text = _link_text(name, trail[-1], error, path)
            else:
                trail.append(fd)
                if step is not None:
                    step(_device(fd))  # Before fstat(2), which asks the filesystem.
                if todo or not _is_link(fd, flags):
                    here = below
                    asked = not todo
                    continue
                os.close(trail.pop())
                text = os.readlink(name, dir_fd=trail[-1])
            followed += 1
            if not links or followed > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if text.startswith("/"):
                while len(trail) > 1:
                    os.close(trail.pop())
                here = ""
            todo += [part for part in reversed(text.split("/")) if part not in ("", ".")]
        return trail.pop() if asked else os.open(".", flags, dir_fd=trail[-1])
    finally:
        for fd in trail[1:]:
            os.close(fd)


def _link_text(name: str, parent: int, error: OSError, path: str) -> str:
    try:
        return os.readlink(name, dir_fd=parent)
    except OSError:
        raise OSError(error.errno, error.strerror, path) from None  # It was no link: the first answer holds.


def _is_link(fd: int, flags: int) -> bool:
    """With O_PATH alone O_NOFOLLOW gives the link itself."""
    return bool(flags & os.O_PATH) and not flags & os.O_DIRECTORY and stat.S_ISLNK(os.fstat(fd).st_mode)


def _statx(fd: int) -> What:
    raw = _statx_raw(fd, _STATX_BASIC | _STATX_BTIME | _STATX_MNT_ID_UNIQUE)
    got, _, _, links, _, _, mode = struct.unpack_from("=IIQIIIH", raw, 0)
    (ino,) = struct.unpack_from("=Q", raw, 32)
    seconds, nanoseconds = struct.unpack_from("=qI", raw, 80)
    modified = struct.unpack_from("=qI", raw, 112)
    major, minor = struct.unpack_from("=II", raw, 136)
    return What(
        identity=Identity(dev=os.makedev(major, minor), ino=ino),
        mount_id=_mount_id(_statx_raw(fd, _STATX_MNT_ID), _STATX_MNT_ID),
        serial=_mount_id(raw, _STATX_MNT_ID_UNIQUE),
        born_at=(seconds + nanoseconds / 1e9 or None) if got & _STATX_BTIME else None,
        links=links,
        is_directory=(mode & 0o170000) == 0o040000,
        modified=modified,
    )


def _device(fd: int) -> int:
    """Known without asking the filesystem."""
    return os.makedev(*struct.unpack_from("=II", _statx_raw(fd, 0), 136))


def _mount_id(raw: bytes, which: int) -> Optional[int]:
    got, mount_id = struct.unpack_from("=I", raw, 0)[0], struct.unpack_from("=Q", raw, 144)[0]
    return int(mount_id) if got & which else None


def _statx_raw(fd: int, mask: int) -> bytes:
    buffer = ctypes.create_string_buffer(_STATX_SIZE)
    if _libc.statx(fd, b"", _AT_EMPTY_PATH | _AT_STATX_DONT_SYNC, mask, buffer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return buffer.raw

# SPDX-License-Identifier: Apache-2.0
"""Resolves a path inside a given root and says what it is, without ever following a link out of that root.

The walk is our own, a component at a time with O_NOFOLLOW from a descriptor of the directory before: a link is
read and walked inside the root, and `..` goes back along the descriptors, so nothing leads out and no rename on
the way can change that. openat2(2) would do it in one call, but RestrictSUIDSGID= of the watcher's sandbox
answers that with ENOSYS (systemd.exec(5)), and kernels before 5.6 have none.

Nothing is opened but with O_PATH, and what is listed or read: no lock, no access time by looking. A filesystem that
may not answer (FUSE, a network's) is not stepped on, wherever a link leads: a lookup there cannot be interrupted. What
may only hide such a one (an overlay, a disk that the host does not have) is stepped on by a child process."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Optional

from ostreewatchd.model import Identity
from ostreewatchd.parse.mountinfo import Mount, MountTable, parse_line
from ostreewatchd.peers.aside import SILENT, Aside, Child, Late, Tell

_AT_EMPTY_PATH = 0x1000
_AT_STATX_DONT_SYNC = 0x4000
_STATX_BASIC = 0x7FF
_STATX_BTIME = 0x800
_STATX_MNT_ID = 0x1000
_STATX_MNT_ID_UNIQUE = 0x4000
_STATX_ALL = _STATX_BASIC | _STATX_BTIME | _STATX_MNT_ID_UNIQUE
_Buffer = ctypes.c_char * 256
_STATX = struct.Struct("=I12xI8xH2xQQ32xqI4xqI4xqI12xIIQ")
"""Of struct statx: mask, nlink, mode, ino, size, btime, ctime, mtime, dev and mnt_id, each time as seconds and
nanoseconds."""
LIST_LIMIT = 4096
_CHUNK = 64 << 10
_MAX_LINKS = 40
_MAX_COMPONENTS = 4096

_libc = ctypes.CDLL(None, use_errno=True)
_libc.statx.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_char_p)


class MayNotAnswer(OSError):
    """The path leads onto a filesystem that may not answer, and was not touched, or that did not answer."""

    def __init__(self, mount: Mount, path: str, why: str = "may not answer: not touched") -> None:
        super().__init__(errno.EAGAIN, f"{mount.point} is {mount.fstype}, which {why}", path)
        self.mount = mount
        self.why = why


class _OnlyAside(Exception):
    """The way leads onto what a child process has to look at."""

    def __init__(self, mount: Mount) -> None:
        super().__init__(mount.point)
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
    changed_at: float = 0.0
    """When its content, its owner, its mode or the number of its names changed last."""
    size: int = 0


class Root:
    """A root directory to resolve in, held by a descriptor; closed by `with`."""

    def __init__(self, path: str, mounts: Optional[MountTable] = None, aside: Optional[Aside] = None) -> None:
        """`mounts`: those of the process whose root it is. Without them nobody looks where a path leads. `aside`: who
        looks at what only the process has; without it that is not touched. Raises OSError: ENOENT if the process is
        gone, EACCES without CAP_SYS_PTRACE."""
        self.mounts = mounts
        self.step: Optional[Callable[[int], None]] = None
        """Called with the device of each directory on a way, before anything is looked up in it; raises to stop."""
        self.led_aside = False
        """Whether a path led to what only the process has: what is there may be another thing at any time, and only a
        child can tell."""
        self._path = path
        self._aside = aside
        self._child: Optional[Child] = None
        self._spent = False
        self._tell: Optional[Tell] = None
        """Of a child: it steps on what its parent does not."""
        self.fd = -1
        if mounts is None or mounts.own("/") is None:
            self._open()

    def _open(self) -> None:
        self.fd = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Root:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._child is not None and self._aside is not None:
            self._aside.is_done(self._child)
            self._child = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def what(self, path: str, *, links: bool = True) -> What:
        """What the absolute `path` is in this root. `links=False` refuses symbolic links (ELOOP): a mount
        point as mountinfo spells it has none. Raises OSError."""
        dev, ino, *rest = self._do("what", path, int(links))
        return What(Identity(dev=dev, ino=ino), *rest)

    def names(self, path: str) -> list[str]:
        """What the directory lists, sorted, at the most some thousand names. Raises OSError."""
        found: list[str] = self._do("names", path, 0)
        return found

    def read(self, path: str, limit: int) -> bytes:
        """The first `limit` + 1 bytes of a regular file: one more than the limit shows that it is longer.
        Raises OSError; also for what is no regular file, which is not opened: to open a device does something."""
        data: bytes = self._do("read", path, limit)
        return data

    def readlink(self, path: str) -> str:
        """The text of a symbolic link. Raises OSError."""
        text: str = self._do("readlink", path, 0)
        return text

    def modified_at(self, path: str) -> float:
        """When the file was changed last. Raises OSError."""
        when: float = self._do("modified_at", path, 0)
        return when

    def exists(self, path: str) -> bool:
        """Whether the path is there. Raises OSError for anything but yes and no."""
        try:
            self.what(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _do(self, name: str, path: str, argument: int) -> Any:
        """Here, or by a child if the way leads where that is needed."""
        try:
            if self.fd < 0:
                self.enter("/", path)
            return _VERBS[name](self, path, argument)
        except _OnlyAside as found:
            return self._by_child(found.mount, (name, path, argument))

    def enter(self, place: str, path: str) -> None:
        """Before a walk steps on a mount that only the process has. Raises _OnlyAside, where that is the child's."""
        mount = self.mounts.own(place) if self.mounts is not None else None
        if mount is None:
            return
        if self._tell is None:
            raise _OnlyAside(mount)
        if self._aside is not None and self._aside.is_silent(mount.line):
            raise MayNotAnswer(mount, path, SILENT)
        self._tell(mount.line)
        if place == "/" and self.fd < 0:
            self._open()

    def _by_child(self, mount: Mount, question: tuple[str, str, int]) -> Any:
        self.led_aside = True
        path = question[1]
        why = self._aside.refuses(mount.line) if self._aside is not None else "was not asked"
        if self._spent:
            why = why or "was not asked, for another one there does not answer"
        if why or self._aside is None:
            raise MayNotAnswer(mount, path, why)
        if self._child is None:
            self._child = self._aside.child(self._work, keep=(self.fd,))
        try:
            kind, answer = self._aside.ask(self._child, question)
        except Late as late:
            child, self._child, self._spent = self._child, None, True
            self._aside.is_late(child, late.at or mount.line)
            raise MayNotAnswer(parse_line(late.at) or mount, path, SILENT) from None
        if kind == "refused":
            line, why = answer
            raise MayNotAnswer(parse_line(line) or mount, path, why)
        return answer

    def _work(self, question: tuple[str, str, int], tell: Tell) -> Any:
        """In the child: what `_do` was asked, in plain types."""
        self._tell = tell
        try:
            return "is", self._do(*question)
        except MayNotAnswer as error:
            return "refused", (error.mount.line, error.why)

    @contextmanager
    def held(self, path: str) -> Iterator[str]:
        """A name for the directory that `path` is in this root, for a system call that takes a name: it leads there
        and nowhere else, whatever links and mounts are on the way. Only of a root that needs no child. Raises
        OSError."""
        with self.opened(path, _DIRECTORY, True) as fd:
            yield f"/proc/self/fd/{fd}"

    @contextmanager
    def opened(self, path: str, flags: int, links: bool) -> Iterator[int]:
        fd = _walk(self, path, flags, links)
        try:
            yield fd
        finally:
            os.close(fd)


def _what(root: Root, path: str, links: int) -> tuple[Any, ...]:
    fd = _walk(root, path, os.O_PATH, bool(links))
    try:
        return _statx(fd)
    finally:
        os.close(fd)


def _names(root: Root, path: str, _: int) -> list[str]:
    with root.opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK, True) as fd:
        found = []
        with os.scandir(fd) as entries:
            for entry in entries:
                found.append(entry.name)
                if len(found) >= LIST_LIMIT:
                    break
    return sorted(found)


def _read(root: Root, path: str, limit: int) -> bytes:
    with root.opened(path, os.O_PATH, True) as place:
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


def _readlink(root: Root, path: str, _: int) -> str:
    parent, name = os.path.split(path.rstrip("/"))
    with root.opened(parent or "/", _DIRECTORY, True) as fd:
        return os.readlink(name, dir_fd=fd)


def _modified_at(root: Root, path: str, _: int) -> float:
    with root.opened(path, os.O_PATH, True) as fd:
        return os.fstat(fd).st_mtime


_DIRECTORY = os.O_PATH | os.O_DIRECTORY
_VERBS: dict[str, Callable[[Root, str, int], Any]] = {
    "what": _what,
    "names": _names,
    "read": _read,
    "readlink": _readlink,
    "modified_at": _modified_at,
}


def _walk(root: Root, path: str, flags: int, links: bool) -> int:
    """A descriptor of `path` inside `root`, opened with `flags`. `links=False`: a symbolic link is ELOOP."""
    mounts, step = root.mounts, root.step
    doubtful = mounts.mounts.doubtful if mounts is not None else frozenset()
    own = mounts.mounts.own_points if mounts is not None else frozenset()
    here = ""  # Where the walk is, without links.
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    todo = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    trail = [root.fd]
    followed = steps = 0
    if step is not None:
        step(_device(root.fd))
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
            if below in own:
                root.enter(below, path)
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


def _statx(fd: int) -> tuple[Any, ...]:
    """The fields of What, of its identity each."""
    got, links, mode, ino, size, born, born_ns, changed, changed_ns, modified, modified_ns, major, minor, serial = (
        _statx_raw(fd, _STATX_ALL)
    )
    has_id, *_, mount_id = _statx_raw(fd, _STATX_MNT_ID)
    return (
        os.makedev(major, minor),
        ino,
        mount_id if has_id & _STATX_MNT_ID else None,
        serial if got & _STATX_MNT_ID_UNIQUE else None,
        (born + born_ns / 1e9 or None) if got & _STATX_BTIME else None,
        links,
        stat.S_ISDIR(mode),
        (modified, modified_ns),
        changed + changed_ns / 1e9,
        size,
    )


def _device(fd: int) -> int:
    """Known without asking the filesystem."""
    *_, major, minor, _ = _statx_raw(fd, 0)
    return os.makedev(major, minor)


def _statx_raw(fd: int, mask: int) -> tuple[int, ...]:
    """The fields of _STATX."""
    buffer = _Buffer()
    if _libc.statx(fd, b"", _AT_EMPTY_PATH | _AT_STATX_DONT_SYNC, mask, buffer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return _STATX.unpack_from(buffer)

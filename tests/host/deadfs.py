# SPDX-License-Identifier: Apache-2.0
"""Filesystems that never answer, or no longer. To look anything up in one hangs until somebody closes its server's
descriptor, or kills who asked, which is no use once the server has read the request."""

from __future__ import annotations

import errno
import os
import signal
import struct
import time
from collections.abc import Iterator
from typing import Any

from tests.host.fakehost import mount

_MOST_SILENCE = 45
"""Seconds."""


def can_be_made() -> bool:
    return os.path.exists("/dev/fuse")


class DeadFilesystem:
    """FUSE whose server reads no request. Opens its device at once: mount it wherever and whenever that is wanted,
    also after a chroot."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)

    def mount(self, target: str) -> None:
        mount("dead", target, "fuse", 0, f"fd={self._fd},rootmode=40000,user_id=0,group_id=0")

    def close(self) -> None:
        """Whoever waits gets ENOTCONN."""
        os.close(self._fd)


class FadingFilesystem(DeadFilesystem):
    """FUSE with directories and a server that reads all requests, and answers until it is told to stop."""

    def __init__(self, *paths: str, silent: str = "") -> None:
        """`paths`: directories in it, from its root; `silent`: the name of the one that is not answered for."""
        super().__init__()
        told, tell = os.pipe()
        self._server = os.fork()
        if self._server == 0:
            try:
                _Server(self._fd, _tree(paths), silent).serve(tell)
            finally:
                os._exit(0)
        os.close(tell)
        os.read(told, 1)
        os.close(told)

    def stop_answering(self) -> None:
        os.kill(self._server, signal.SIGUSR1)

    def freeze(self) -> None:
        """The server reads nothing any more: who waits can be killed."""
        os.kill(self._server, signal.SIGSTOP)

    def end(self) -> None:
        """Answer all with an error, who waits and who comes later."""
        os.kill(self._server, signal.SIGUSR2)


def _tree(paths: tuple[str, ...]) -> dict[int, dict[str, int]]:
    """The names in each directory, by number: the root is 1."""
    tree: dict[int, dict[str, int]] = {1: {}}
    for path in paths:
        node = 1
        for name in path.split("/"):
            if name not in tree[node]:
                tree[node][name] = len(tree) + 1
                tree[tree[node][name]] = {}
            node = tree[node][name]
    return tree


class _Server:
    """Source: fuse(4), include/uapi/linux/fuse.h: requests by their numbers, protocol 7.31."""

    _LOOKUP, _FORGET, _GETATTR, _STATFS, _GETXATTR, _INIT, _OPENDIR, _READDIR, _RELEASEDIR, _BATCH_FORGET = (
        1, 2, 3, 17, 22, 26, 27, 28, 29, 42,
    )  # fmt: skip

    def __init__(self, fd: int, tree: dict[int, dict[str, int]], silent: str) -> None:
        self._fd = fd
        self._tree = tree
        self._silent = silent
        self._answers = True
        self._has_ended = False
        self._waiting: list[int] = []

    def serve(self, tell: int) -> None:
        signal.signal(signal.SIGUSR1, self._stop)
        signal.signal(signal.SIGUSR2, self._end)
        # A test that waits here itself holds the device and could not be killed: before its time is up it goes on.
        signal.signal(signal.SIGALRM, self._end)
        signal.alarm(_MOST_SILENCE)
        os.write(tell, b"x")
        os.close(tell)
        while True:
            try:
                data = os.read(self._fd, 1 << 20)
            except PermissionError:
                time.sleep(0.005)  # It is not mounted yet.
                continue
            except OSError:
                return
            _, operation, unique, node = struct.unpack_from("<IIQQ", data)
            if operation in (self._FORGET, self._BATCH_FORGET):
                continue
            answer = self._answer(operation, node, data[40:]) if self._answers else None
            if answer is None:
                self._waiting.append(unique)
                if self._has_ended:
                    self._end()
                continue
            body, error = (b"", answer) if isinstance(answer, int) else (answer, 0)
            os.write(self._fd, struct.pack("<IiQ", 16 + len(body), -error, unique) + body)

    def _stop(self, *_: object) -> None:
        self._answers = False

    def _end(self, *_: object) -> None:
        self._has_ended, self._answers = True, False
        while self._waiting:
            os.write(self._fd, struct.pack("<IiQ", 16, -errno.EIO, self._waiting.pop()))

    def _answer(self, operation: int, node: int, data: bytes) -> bytes | int | None:
        """A body, an error's number, or None: no answer ever."""
        if operation == self._INIT:
            return struct.pack("<IIIIHHIIHHI28x", 7, 31, 65536, 0, 12, 10, 65536, 1, 0, 0, 0)
        if operation == self._GETATTR:
            return struct.pack("<QII", 0, 0, 0) + _attributes(node)
        if operation == self._LOOKUP:
            name = data.rstrip(b"\0").decode()
            if name == self._silent:
                return None
            found = self._tree[node].get(name)
            # Valid for no time: each use asks again.
            return 2 if found is None else struct.pack("<QQQQII", found, 0, 0, 0, 0, 0) + _attributes(found)
        if operation == self._STATFS:
            return struct.pack("<QQQQQIIII24x", 1, 1, 1, 1, 1, 4096, 255, 4096, 0)
        if operation == self._OPENDIR:
            return struct.pack("<QII", 1, 0, 0)
        if operation == self._READDIR:
            (offset,) = struct.unpack_from("<Q", data, 8)
            return b"".join(self._entries(node))[:4096] if offset == 0 else b""
        if operation == self._GETXATTR:
            return 61
        return 0 if operation == self._RELEASEDIR else 38

    def _entries(self, node: int) -> Iterator[bytes]:
        for number, (name, child) in enumerate(self._tree[node].items(), 1):
            entry = struct.pack("<QQII", child, number, len(name), 4) + name.encode()
            yield entry + bytes(-len(entry) % 8)


def _attributes(node: int) -> bytes:
    values: tuple[Any, ...] = (node, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
    return struct.pack("<QQQQQQIIIIIIIIII", *values)


def hangs(path: str) -> bool:
    """Whether a process that looks the path up still waits after a third of a second. It may go on doing so."""
    pid = os.fork()
    if pid == 0:
        try:
            os.closerange(3, 256)  # Not the filesystem's own device: with that it would keep what it waits for.
            os.stat(path)
        finally:
            os._exit(0)
    until = time.monotonic() + 0.35
    while time.monotonic() < until:
        if os.waitpid(pid, os.WNOHANG) != (0, 0):
            return False
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    time.sleep(0.01)
    os.waitpid(pid, os.WNOHANG)
    return True

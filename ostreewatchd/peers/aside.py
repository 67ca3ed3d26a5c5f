# SPDX-License-Identifier: Apache-2.0
"""Has a child process look where a filesystem may not answer, and leaves it behind if it does not come back in time.

Who waits for FUSE or a network cannot always be killed: the wait is uninterruptible once the server has read the
request (fuse_simple_request in the kernel's fs/fuse/dev.c). So the child does the looking itself and only says what it
saw: an answer that a server gives to the child it may refuse to whoever asks next.

The child is forked and runs no program: after a live switch /usr is another one, which may have another Python or none
of this, and the watcher was told to load all that it needs before. What the child does after fork(2) is opens, reads
and one pipe's worth of writing: of other threads (grpc has some, in the remediation) it needs nothing, no lock and no
memory of theirs. It holds one descriptor of the process that it looks at and its end of a socket, no other."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import marshal
import os
import select
import signal
import socket
import struct
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

NAME = b"ostree-aside"
"""What the kernel calls a child: nobody takes it for the watcher."""
SILENT = "does not answer"
"""Why nobody is sent to where somebody was waited for in vain."""
MOST_LEFT = 3
"""Children that wait and cannot be killed. Each keeps the memory that its parent had, as far as that changed since."""
_MOST_LATE = 3
"""Children that are waited for in vain in one look: with each deadline well below the watchdog's time."""
_AGAIN_AFTER = 600.0
"""Seconds after which one that did not answer is asked again, if who asked it then has come back."""
_MOST_REMEMBERED = 1000
_ENDS_WITHIN = 0.2
_MAX_ANSWER = 16 << 20
_LENGTH = struct.Struct("=I")
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15

_libc = ctypes.CDLL(None, use_errno=True)

Tell = Callable[[str], None]
"""Says in the child where it goes now."""


class Late(Exception):
    """The child did not come back within the time. `at`: what it told last."""

    def __init__(self, at: str) -> None:
        super().__init__(at)
        self.at = at


class Aside:
    """What did not answer and who still waits there; kept from look to look by who looks more than once."""

    def __init__(self, deadline: float = 3.0) -> None:
        """`deadline`: seconds for one answer. A local filesystem takes microseconds, a machine that is busy longer."""
        self.deadline = deadline
        self.children = 0
        """How many were started."""
        self._silent: dict[str, float] = {}
        """When it did not answer, by the mount's line: ids of mounts are the kernel's, not a namespace's."""
        self._left: dict[int, str] = {}
        """Which mount each child that was killed and has not ended waits for."""
        self._late = 0
        self._waited = 0.0
        """Seconds in this look, in all: what answers just in time, question after question, is as good as silent."""
        self._others: Optional[int] = None

    def begin(self) -> None:
        """A look begins."""
        self._late, self._waited = 0, 0.0
        self._reap()

    def refuses(self, mount: str) -> str:
        """Why nobody is sent to the mount (its line); empty if somebody is."""
        self._reap()
        if self.is_silent(mount):
            return SILENT
        is_enough = self._late >= _MOST_LATE or self._waited >= _MOST_LATE * self.deadline
        if is_enough or len(self._left) + self._of_others() >= MOST_LEFT:
            return "was not asked, for too many others do not answer"
        return ""

    def is_silent(self, mount: str) -> bool:
        """Whether it is known not to answer."""
        since = self._silent.get(mount)
        recently = since is not None and time.monotonic() - since < _AGAIN_AFTER
        return recently or mount in self._left.values()

    def child(self, work: Callable[[Any, Tell], Any], keep: Iterable[int]) -> Child:
        """A new child that answers with `work`; `keep`: the descriptors that it needs. Raises OSError."""
        self.children += 1
        return Child(work, keep)

    def ask(self, child: Child, question: Any) -> Any:
        """As Child.ask, within the deadline."""
        since = time.monotonic()
        try:
            return child.ask(question, self.deadline)
        finally:
            self._waited += time.monotonic() - since

    def is_done(self, child: Child) -> None:
        """Nobody asks the child any more. One that has not ended soon (a busy machine) is reaped later."""
        if not child.end():
            self._left[child.pid] = ""

    def is_late(self, child: Child, mount: str) -> None:
        """The child has not come back from the mount: end it, or leave it behind, and remember."""
        self._late += 1
        while len(self._silent) >= _MOST_REMEMBERED:
            del self._silent[next(iter(self._silent))]
        self._silent[mount] = time.monotonic()
        if not child.end():
            self._left[child.pid] = mount

    def _reap(self) -> None:
        self._left = {pid: mount for pid, mount in self._left.items() if not _has_ended(pid)}

    def _of_others(self) -> int:
        """Those that an earlier run of the same unit left. Counted once, and anew while they and ours are too many."""
        if self._others is None or len(self._left) + self._others >= MOST_LEFT:
            self._others = sum(1 for pid in _left_in_cgroup() if pid not in self._left)
        return self._others


class Child:
    """A fork of this process that answers questions until it is closed."""

    def __init__(self, work: Callable[[Any, Tell], Any], keep: Iterable[int]) -> None:
        """Raises OSError: no process or memory for it."""
        self._at = ""
        self._socket, theirs = socket.socketpair()
        parent = os.getpid()
        # No signal may reach the child while it has the parent's handlers, and the parent's wakeup descriptor.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later, if there are threads.
                self.pid = os.fork()
            if self.pid == 0:
                _run(parent, theirs.fileno(), work, keep)
        except OSError:
            self._socket.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            theirs.close()

    def ask(self, question: Any, deadline: float) -> Any:
        """What it answers; both of plain types. Raises Late, and OSError: as `work` raised it, or EOFError's kind of
        end as EIO."""
        until = time.monotonic() + deadline
        self._at = ""
        _send(self._socket.fileno(), question)
        while True:
            kind, value = self._message(until)
            if kind == "at":
                self._at = value
            elif kind == "error":
                raise OSError(*value)
            else:
                return value

    def _message(self, until: float) -> Any:
        (size,) = _LENGTH.unpack(self._bytes(_LENGTH.size, until))
        if size > _MAX_ANSWER:
            raise OSError(5, f"an answer of {size} bytes")
        return marshal.loads(self._bytes(size, until))

    def _bytes(self, count: int, until: float) -> bytes:
        found = bytearray()
        waits = select.poll()
        waits.register(self._socket, select.POLLIN)
        while len(found) < count:
            if not waits.poll(max(0.0, until - time.monotonic()) * 1000):
                raise Late(self._at)
            data = self._socket.recv(count - len(found))
            if not data:
                raise OSError(5, "the process that was to look there has ended")
            found += data
        return bytes(found)

    def end(self) -> bool:
        """Kill it; whether it has ended soon."""
        self._socket.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):  # No descriptor left: it may have ended by now, or is reaped later.
            fd = os.pidfd_open(self.pid)
            try:
                waits = select.poll()
                waits.register(fd, select.POLLIN)
                waits.poll(_ENDS_WITHIN * 1000)
            finally:
                os.close(fd)
        return _has_ended(self.pid)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG) != (0, 0)
    except ChildProcessError:
        return True


def _run(parent: int, fd: int, work: Callable[[Any, Tell], Any], keep: Iterable[int]) -> None:
    """The child's whole life."""
    try:
        gc.disable()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        _libc.prctl(_PR_SET_NAME, NAME, 0, 0, 0)
        _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() == parent:  # Else it has ended before it could be told.
            _close_all_but({fd, *keep})
            _serve(fd, work)
    finally:
        os._exit(0)


def _serve(fd: int, work: Callable[[Any, Tell], Any]) -> None:
    while True:
        head = _read(fd, _LENGTH.size)
        if not head:
            return
        question = marshal.loads(_read(fd, _LENGTH.unpack(head)[0]))
        try:
            answer = ("is", work(question, lambda at: _send(fd, ("at", at))))
        except OSError as error:
            answer = ("error", (error.errno, error.strerror, error.filename))
        _send(fd, answer)


def _send(fd: int, value: Any) -> None:
    data = marshal.dumps(value)
    data = _LENGTH.pack(len(data)) + data
    while data:
        data = data[os.write(fd, data) :]


def _read(fd: int, count: int) -> bytes:
    found = b""
    while len(found) < count:
        data = os.read(fd, count - len(found))
        if not data:
            return b""
        found += data
    return found


def _close_all_but(keep: set[int]) -> None:
    last = max(map(int, os.listdir("/proc/self/fd")))
    start = 0
    for fd in (*sorted(one for one in keep if one >= 0), last + 1):
        os.closerange(start, fd)
        start = fd + 1


def _left_in_cgroup() -> Iterator[int]:
    """Processes of that name in this process's own cgroup, where nobody else can put one."""
    own = _proc_file("self", "cgroup")
    for name in os.listdir("/proc"):
        if name.isdecimal() and _proc_file(name, "comm") == NAME + b"\n" and _proc_file(name, "cgroup") == own:
            yield int(name)


def _proc_file(pid: str, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read(65536)
    except OSError:
        return b""

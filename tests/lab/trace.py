# SPDX-License-Identifier: Apache-2.0
"""Follows a process's system calls by ptrace(2), and can hold or kill it right before and right after each that
reaches beyond it: nothing of what is followed knows of it, and a kill is at the very call, not near it."""

import ctypes
import os
import platform
import signal
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Callable, Optional

from tests.lab.errors import NodeFailed

# linux/ptrace.h
_SYSCALL, _SEIZE, _GET_SYSCALL_INFO = 24, 0x4206, 0x420E
_O_TRACESYSGOOD, _O_TRACECLONE, _O_TRACEEXEC, _O_EXITKILL = 0x1, 0x8, 0x10, 0x100000
_ENTRY, _EXIT = 1, 2
_WALL, _WNOTHREAD = 0x40000000, 0x20000000
_AT_FDCWD = -100
_MOST = 1 << 16

# What can be seen outside of a process, by number (x86_64) with what its arguments are: a file by descriptor or by
# path, or a socket. Reading and its own memory are nobody else's business.
_FILES = {1: "write", 18: "pwrite64", 20: "writev", 74: "fsync", 75: "fdatasync", 77: "ftruncate", 91: "fchmod",
          93: "fchown", 285: "fallocate", 296: "pwritev", 328: "pwritev2"}  # fmt: skip
_PATHS = {76: "truncate", 82: "rename", 83: "mkdir", 84: "rmdir", 85: "creat", 86: "link", 87: "unlink",
          88: "symlink", 90: "chmod", 92: "chown"}  # fmt: skip
_AT_PATHS = {258: "mkdirat", 260: "fchownat", 263: "unlinkat", 264: "renameat", 265: "linkat", 266: "symlinkat",
             268: "fchmodat", 280: "utimensat", 316: "renameat2"}  # fmt: skip
_SENDS = {44: "sendto", 46: "sendmsg", 307: "sendmmsg"}
_RECEIVES = {0: "read", 45: "recvfrom", 47: "recvmsg"}
_SIGNALS = {62: "kill", 234: "tgkill", 424: "pidfd_send_signal"}
_OPEN, _OPENAT, _CONNECT = 2, 257, 42
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long] * 4
_libc.ptrace.restype = ctypes.c_long


@dataclass(frozen=True)
class Call:
    """A system call that somebody else can see; each comes twice, but one that receives only when it is done. `to` is
    the path of a file or of a socket, `data` what is sent or was received."""

    name: str
    to: str
    data: bytes
    done: bool

    def __str__(self) -> str:
        return f"{self.name} {self.to}"


def follow(pid: int, on_call: Callable[[Call], bool], limit: float = 120.0) -> None:
    """Let a process that is stopped (SIGSTOP) go, and follow it to its end. `on_call` may take its time, and kills
    by saying True. What is left after `limit` seconds is killed, and an error."""
    if platform.machine() != "x86_64":
        raise NodeFailed(f"system calls have other numbers on {platform.machine()}")
    failed: list[BaseException] = []

    def work() -> None:
        # ptrace and wait are a thread's own: none of the test's other children is waited for here.
        try:
            _Tracer(pid, on_call).run()
        except BaseException as error:  # noqa: BLE001  It is the caller's.
            failed.append(error)
            _kill(pid)

    thread = threading.Thread(target=work, name=f"tracer of {pid}")
    thread.start()
    thread.join(limit)
    if thread.is_alive():
        _kill(pid)
        thread.join(10)
        raise NodeFailed(f"process {pid} was not done after {limit:g} s")
    if failed:
        raise failed[0]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


class _Tracer:
    def __init__(self, pid: int, on_call: Callable[[Call], bool]) -> None:
        self._pid = pid
        self._on_call = on_call
        self._sockets: dict[int, str] = {}
        self._open: dict[int, tuple[Optional[Call], int]] = {}
        """By thread: the call that it is in, if it is one of those, and its second argument."""
        self._killed = False

    def run(self) -> None:
        options = _O_TRACESYSGOOD | _O_TRACECLONE | _O_TRACEEXEC | _O_EXITKILL
        if _libc.ptrace(_SEIZE, self._pid, 0, options) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), f"ptrace of {self._pid}")
        os.kill(self._pid, signal.SIGCONT)
        while True:
            try:
                thread, status = os.waitpid(-1, _WALL | _WNOTHREAD)
            except ChildProcessError:
                return
            if not os.WIFSTOPPED(status):
                self._open.pop(thread, None)
                continue
            number = os.WSTOPSIG(status)
            deliver = 0
            if number == signal.SIGTRAP | 0x80:
                self._at_call(thread)
            elif not status >> 16:
                deliver = number
            _libc.ptrace(_SYSCALL, thread, 0, deliver)

    def _at_call(self, thread: int) -> None:
        info = ctypes.create_string_buffer(88)
        if _libc.ptrace(_GET_SYSCALL_INFO, thread, len(info), ctypes.addressof(info)) < 0 or self._killed:
            return
        if info.raw[0] == _ENTRY:
            number, *arguments = struct.unpack_from("7Q", info.raw, 24)
            call = self._decode(thread, number, arguments)
            self._open[thread] = call, arguments[1]
            if call is not None and call.name in _RECEIVES.values():
                return
            if number == _CONNECT:
                self._sockets[arguments[0]] = call.to if call else ""
        elif info.raw[0] == _EXIT:
            opened, second = self._open.pop(thread, (None, 0))
            result = struct.unpack_from("q", info.raw, 24)[0]
            if opened is None or result < 0:
                return
            data = opened.data
            if opened.name == "recvmsg":
                data = self._pieces(thread, second)[:result]
            elif opened.name in _RECEIVES.values():
                data = self._memory(thread, second, result)
            call = Call(opened.name, opened.to, data, True)
        else:
            return
        if call is not None and self._on_call(call):
            self._killed = True
            _kill(self._pid)

    def _decode(self, thread: int, number: int, arguments: list[int]) -> Optional[Call]:
        """The call, if it is one that somebody else can see."""
        first = arguments[0]
        if number in _FILES:
            to = self._file(thread, first)
            data = self._memory(thread, arguments[1], arguments[2]) if number in (1, 18) else b""
            # A socket can be written to as well. A pipe or an event is the process's own.
            return Call(_FILES[number], to, data, False) if to.startswith("/") else None
        if number in _PATHS:
            return Call(_PATHS[number], self._text(thread, first), b"", False)
        if number in _AT_PATHS:
            return Call(_AT_PATHS[number], self._at(thread, first, arguments[1]), b"", False)
        if number in (_OPEN, _OPENAT):
            path, flags = arguments[number == _OPENAT], arguments[1 + (number == _OPENAT)]
            if not flags & _WRITES:
                return None
            to = self._at(thread, first, path) if number == _OPENAT else self._text(thread, path)
            return Call("open", to, b"", False)
        if number == _CONNECT:
            return Call("connect", self._address(thread, arguments[1], arguments[2]), b"", False)
        if number in _SENDS:
            return Call(_SENDS[number], *self._sent(thread, number, arguments), False)
        if number in _RECEIVES:
            to = self._sockets.get(first, "") if self._file(thread, first).startswith("/socket:") else ""
            return Call(_RECEIVES[number], to, b"", False) if to else None
        if number in _SIGNALS:
            return Call(_SIGNALS[number], str(first), b"", False)
        return None

    def _sent(self, thread: int, number: int, arguments: list[int]) -> tuple[str, bytes]:
        to = self._sockets.get(arguments[0], "")
        if number == 44:
            if arguments[4]:
                to = self._address(thread, arguments[4], arguments[5])
            return to, self._memory(thread, arguments[1], arguments[2])
        # The first of many for sendmmsg: it tells who and what, and the call is one.
        name, length = struct.unpack("QI", self._memory(thread, arguments[1], 12))
        if name:
            to = self._address(thread, name, length)
        return to, self._pieces(thread, arguments[1])

    def _pieces(self, thread: int, message: int) -> bytes:
        """What a struct msghdr holds or has room for."""
        pieces, count = struct.unpack("QQ", self._memory(thread, message + 16, 16))
        data = b""
        for place in range(min(count, 64)):
            base, size = struct.unpack("QQ", self._memory(thread, pieces + 16 * place, 16))
            data += self._memory(thread, base, size)
        return data

    def _file(self, thread: int, descriptor: int) -> str:
        """Its path; a socket's begins with /socket:"""
        try:
            name = os.readlink(f"/proc/{thread}/fd/{descriptor}")
        except OSError:
            return ""
        if name.startswith("socket:"):
            return f"/socket:{self._sockets.get(descriptor, '')}"
        return name if name.startswith("/") else ""

    def _at(self, thread: int, folder: int, path: int) -> str:
        name = self._text(thread, path)
        if name.startswith("/") or ctypes.c_int(folder).value == _AT_FDCWD:
            return name
        return f"{self._file(thread, ctypes.c_int(folder).value)}/{name}"

    def _address(self, thread: int, place: int, length: int) -> str:
        raw = self._memory(thread, place, min(length, 110))
        if len(raw) < 3 or struct.unpack_from("H", raw)[0] != 1:  # AF_UNIX
            return "the network"
        return raw[2:].partition(b"\0")[0].decode(errors="replace") or "@" + raw[3:].decode(errors="replace")

    def _text(self, thread: int, place: int) -> str:
        return self._memory(thread, place, 4096).partition(b"\0")[0].decode(errors="surrogateescape")

    def _memory(self, thread: int, place: int, length: int) -> bytes:
        """Up to there; shorter where a page ends that is the last one."""
        found = b""
        length = min(length, _MOST)
        with suppress(OSError), open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
            while len(found) < length:
                memory.seek(place + len(found))
                piece = memory.read(min(length - len(found), 4096 - (place + len(found)) % 4096))
                found += piece
                if not piece or (length == 4096 and b"\0" in piece):
                    break
        return found

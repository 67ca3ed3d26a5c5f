# SPDX-License-Identifier: Apache-2.0
"""A connection to the message bus: dbus-next's, and no more of it than low-level messages, without its traps.

Nothing else imports the library, so that another one with the same names (dbus-fast) can take its place here. What it
does by itself and this does not: connect while everything waits; read without end where the other side closes during
the handshake; give up the connection when a write would block; decode whatever is sent, however long; end with the
first message that it does not understand; answer introspection. systemd is also asked over PID 1's own socket
(peers/systemd.py): that answers while there is no bus, and in the remediation alone."""

from __future__ import annotations

import contextlib
import io
import socket
import struct
from typing import Any, Callable, Optional
from urllib.parse import quote

from dbus_next.aio.message_bus import MessageBus
from dbus_next.constants import MessageFlag, MessageType
from dbus_next.errors import AuthError
from dbus_next.message import Message as Message

# Private, and the only way to decode what is not read from a socket.
from dbus_next._private.unmarshaller import Unmarshaller  # isort: skip

from ostreewatchd.lean import asyncio
from ostreewatchd.parse.dbusframes import FrameError, Frames
from ostreewatchd.peers.errors import PeerError

SYSTEM_BUS = "/run/dbus/system_bus_socket"
DRIVER, DRIVER_PATH = "org.freedesktop.DBus", "/org/freedesktop/DBus"
PROPERTIES = "org.freedesktop.DBus.Properties"
_CONNECT_WITHIN = 5.0
_ANSWER_WITHIN = 3.0
_CHUNK = 64 << 10
"""Bytes a wake-up: what comes beyond waits for the loop's next round."""
_LONGEST_LINE = 4 << 10
"""Of the handshake."""
_UNKNOWN_METHOD = "org.freedesktop.DBus.Error.UnknownMethod"

_NOT_UNDERSTOOD = (
    ValueError, TypeError, LookupError, AttributeError, EOFError, OverflowError, RecursionError, struct.error,
)  # fmt: skip
"""What the library raises for a message that is none: of its own errors only those that are of these kinds."""
_BROKEN = (OSError, AuthError, *_NOT_UNDERSTOOD)
"""For a handshake that is none, or an answer to the first call."""


class BusError(PeerError):
    """The bus cannot be reached, or has gone; or a call had no answer in time, or an error for one."""


class NoOwner(BusError):
    """Nobody has that name. With NO_AUTO_START and unique names, nobody is started for it either."""


class Bus(MessageBus):
    """One connection; of one that is lost nothing is used again. Made inside a running loop, by `open`."""

    def __init__(self, path: str) -> None:
        """Raises OSError. A Unix socket connects at once or not at all (a full backlog is EAGAIN)."""
        self._path = path
        super().__init__(bus_address=f"unix:path={quote(path)}")
        self._writer.sock = _Patient(self._sock)
        self._frames = Frames()
        self._listeners: list[Callable[[Message], None]] = []

    @classmethod
    async def open(cls, path: str = SYSTEM_BUS, *, within: float = _CONNECT_WITHIN) -> Bus:
        """A connection that has said hello. Raises BusError."""
        try:
            bus = cls(path)
        except OSError as error:
            raise BusError(f"{path}: {error.strerror}", "does the system bus run?") from error
        try:
            await asyncio.wait_for(bus.connect(), within)
        except asyncio.CancelledError:
            bus.close()
            raise
        except asyncio.TimeoutError as error:
            bus.close()
            raise BusError(f"{path}: no answer within {within:g} s", "does the system bus run?") from error
        except _BROKEN as error:
            bus.close()
            raise BusError(f"{path}: {_text(error)}", "does the system bus run?") from error
        return bus

    def close(self) -> None:
        """Drop the connection; who waits for an answer gets a BusError."""
        self._user_disconnect = True
        self._finalize(None)
        if not self._disconnect_future.cancelled():
            self._disconnect_future.exception()  # It was looked at: else asyncio complains.
        with contextlib.suppress(OSError):
            self._stream.close()
        self._sock.close()

    def listen(self, heard: Callable[[Message], None]) -> None:
        """Call `heard` with each signal that comes, whoever sent it."""
        self._listeners.append(heard)

    async def lost(self) -> str:
        """Wait until the connection is gone: why."""
        try:
            await self.wait_for_disconnect()
        except (OSError, EOFError, FrameError) as error:
            return f"{self._path}: {_text(error)}"
        return f"{self._path}: closed"

    async def ask(
        self, destination: str, path: str, interface: str, member: str, signature: str = "", *body: Any
    ) -> list[Any]:
        """Call a method of something that runs: the body of its answer. Raises NoOwner, BusError."""
        message = Message(
            destination=destination, path=path, interface=interface, member=member, signature=signature,
            body=list(body), flags=MessageFlag.NO_AUTOSTART, serial=self.next_serial(),
        )  # fmt: skip
        what = f"{destination}, asked for {member}"
        if not self.connected:
            raise BusError(f"{what}: the bus is gone", "it is connected to anew")
        try:
            reply = await asyncio.wait_for(self.call(message), _ANSWER_WITHIN)
        except asyncio.TimeoutError as error:
            raise BusError(f"{what}: no answer within {_ANSWER_WITHIN:g} s", "does it hang?") from error
        except (OSError, EOFError, FrameError) as error:
            raise BusError(f"{what}: {_text(error)}", "it is connected to anew") from error
        finally:
            self._method_return_handlers.pop(message.serial, None)
        if reply is None:
            raise BusError(f"{what}: the bus is gone", "it is connected to anew")
        if reply.message_type is MessageType.ERROR:
            name = str(reply.error_name)
            kind = NoOwner if name.endswith((".NameHasNoOwner", ".ServiceUnknown")) else BusError
            said = " ".join(str(part) for part in reply.body if isinstance(part, str))[:200]
            raise kind(f"{what}: {name}: {said}", "see `busctl status`")
        return list(reply.body)

    async def match(self, rule: str) -> None:
        """Have the signals that fit the rule sent here. Raises BusError."""
        await self.ask(DRIVER, DRIVER_PATH, DRIVER, "AddMatch", "s", rule)

    async def owner(self, name: str) -> str:
        """The unique name of who has the name; empty: nobody. Raises BusError."""
        try:
            (unique,) = await self.ask(DRIVER, DRIVER_PATH, DRIVER, "GetNameOwner", "s", name)
        except NoOwner:
            return ""
        except ValueError as error:
            raise BusError(f"{DRIVER}: an owner that is none", "see `busctl list`") from error
        return str(unique)

    # From here on what the library calls.

    def _setup_socket(self) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        try:
            self._sock.connect(self._path)
        except OSError:
            self._sock.close()
            raise
        self._stream = self._sock.makefile("rwb")
        self._fd = self._sock.fileno()

    async def _auth_readline(self) -> str:
        line = bytearray()
        while not line.endswith(b"\r\n"):
            # One byte at a time: what comes behind the handshake is a message's.
            more = await self._loop.sock_recv(self._sock, 1)
            if not more or len(line) > _LONGEST_LINE:
                raise EOFError("closed during the handshake")
            line += more
        return line[:-2].decode("ascii", "replace")

    def _message_reader(self) -> None:
        try:
            data = self._sock.recv(_CHUNK)
            if not data:
                raise EOFError("closed by the bus")
            for frame in self._frames.feed(data):
                message = _decoded(frame)
                if message is not None:
                    self._on_message(message)
                if self._disconnected:
                    return
        except (BlockingIOError, InterruptedError):
            return
        except (OSError, EOFError, FrameError) as error:
            self._finalize(error)

    def _on_message(self, message: Message) -> None:
        if message.message_type is MessageType.SIGNAL:
            for heard in self._listeners:
                heard(message)
        elif message.message_type is MessageType.METHOD_CALL:
            # Nothing is offered. Who asks should not have to wait for that.
            if not message.flags & MessageFlag.NO_REPLY_EXPECTED:
                self.send(Message.new_error(message, _UNKNOWN_METHOD, "nothing is offered here"))
        else:
            super()._on_message(message)


class _Patient:
    """A socket whose full buffer is no error to the library: it goes on when there is room."""

    def __init__(self, inner: socket.socket) -> None:
        self._inner = inner

    def send(self, data: memoryview) -> int:
        try:
            return self._inner.send(data)
        except BlockingIOError:
            return 0


def _decoded(frame: bytes) -> Optional[Message]:
    """None: it is not understood. Its length is, so the next one can be read all the same."""
    try:
        message = Unmarshaller(io.BytesIO(frame)).unmarshall()
    except _NOT_UNDERSTOOD:
        return None
    return message if isinstance(message, Message) else None


def _text(error: BaseException) -> str:
    said = " ".join(str(getattr(error, "strerror", None) or error).split())[:200]
    return said or type(error).__name__

# SPDX-License-Identifier: Apache-2.0
"""One bounded gRPC connection to a runtime's socket, whose failures become this client's errors.

While a channel is open grpc wakes up some twenty times a second: open it for a look, close it afterwards.
"""

from __future__ import annotations

import math
import os
import re
import stat
import time
import warnings
from types import TracebackType
from typing import Any, Optional, TypeVar
from urllib.parse import quote

from google.protobuf.message import DecodeError, Message

from .errors import (
    AnswerTooLarge,
    AnswerUnclear,
    BadId,
    CriError,
    NotFound,
    RuntimeLost,
    RuntimeRefused,
    RuntimeSilent,
    RuntimeUnavailable,
)

# Read by grpc when it is imported. Its fork handlers must stay off: with them on Python 3.9 every thirtieth
# process that we spawned died of SIGABRT between fork and exec (measured; grpc/grpc pull request 43157 says
# why). And nothing on stderr that the errors below do not say. Who debugs grpc can still set both.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc

MAX_ANSWER = 16 * 1024 * 1024
"""Bytes of one answer: what containerd itself sends at most, some 8,000 containers with long annotations."""

MAX_ENTRIES = 16_384
"""Entries of one list: far above the 1,000 containers of a big node with all their dead predecessors."""

MAX_DEADLINE = 3600.0
"""Seconds that any call may last."""

SERVICE = "/runtime.v1.RuntimeService/"

_MAX_PATH = 107  # sizeof(sun_path) - 1, unix(7)
_MAX_DETAILS = 400  # characters of a runtime's message that are passed on
_FULL_ID = re.compile(r"[0-9a-f]{64}")

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_ANSWER),
    # A stop must never be sent twice by the library; the caller looks again before it repeats one.
    ("grpc.enable_retries", 0),
    # A pool of one's own: otherwise a new channel inherits the back-off (up to minutes) of an earlier one
    # that saw the runtime restart.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config_disable_resolution", 1),
    ("grpc.default_authority", "localhost"),
)

Answer = TypeVar("Answer", bound=Message)


def check_id(what: str, id: str) -> str:
    """The id as it came if it is a full one (64 hexadecimal digits); raises BadId otherwise."""
    if not _FULL_ID.fullmatch(id):
        raise BadId(
            f"{line(ascii(id), 80)} is no full {what} id",
            "nothing was sent; use the 64 hexadecimal digits that the runtime lists",
        )
    return id


class Channel:
    """An open connection; `call` is the only way through it. Close it, or use it in a `with`."""

    def __init__(self, socket: str, deadline: float) -> None:
        """`socket` is an absolute path, `deadline` the seconds that a call may last.

        Raises RuntimeUnavailable if there is no unix socket at the path, and ValueError for a deadline that
        is not above 0 and at most MAX_DEADLINE. Does not connect yet: the first call does.
        """
        self._channel: Optional[Any] = None
        self.socket = socket
        self.deadline = _bounded(deadline)
        _check_socket(socket)
        # quote: a path is not a URI, and '%', '#' or '?' in it would name another file.
        # The attempt to connect outlives close() (measured: by 20 s, if the listener says nothing), so it is
        # bounded too, a little above the deadline so that such a listener is still told as a silent one.
        attempt = ("grpc.min_reconnect_backoff_ms", int(1000 * min(deadline + 1, 20)))
        self._channel = grpc.insecure_channel("unix:" + quote(socket), options=(*_OPTIONS, attempt))

    def close(self) -> None:
        """Ends the connection and its threads; a second time does nothing."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def __del__(self) -> None:
        if self._channel is not None:
            warnings.warn(f"the channel to {self.socket} was not closed", ResourceWarning, stacklevel=2)
            self.close()

    def call(
        self,
        verb: str,
        request: Message,
        answer: type[Answer],
        *,
        limit: Optional[float] = None,
        acts: bool = False,
    ) -> Answer:
        """The runtime's answer to one verb.

        `limit` is in seconds (None: the channel's deadline). `acts` says that the verb changes something, so
        that an error tells when it is not known whether it did. Raises the errors of `errors.py`, and
        ValueError once the channel is closed.
        """
        if self._channel is None:
            raise ValueError(f"the channel to {self.socket} is closed")
        limit = self.deadline if limit is None else _bounded(limit)
        # Bytes in and out: grpc would log a traceback of a deserializer that fails, and hide its reason.
        method = self._channel.unary_unary(SERVICE + verb)
        began = time.monotonic()
        try:
            data: bytes = method(request.SerializeToString(), timeout=limit)
        except grpc.RpcError as error:
            took = time.monotonic() - began
            raise _translated(error, self.socket, verb, limit, took, acts) from None
        try:
            return answer.FromString(data)
        except DecodeError:
            raise AnswerUnclear(
                f"the runtime at {self.socket} answered {verb} with something that is no CRI message",
                "check that the socket is the container runtime's" + (_LOOK_AGAIN if acts else ""),
            ) from None


_LOOK_AGAIN = "; it may have taken effect: look again before repeating it"


def _translated(error: Any, socket: str, verb: str, limit: float, took: float, acts: bool) -> CriError:
    code: str = error.code().name
    details = line(error.details() or "no details", _MAX_DETAILS)
    again = _LOOK_AGAIN if acts else ""
    if code == "UNAVAILABLE" and not details.startswith("failed to connect"):
        return RuntimeLost(
            f"the connection to the runtime at {socket} broke during {verb}: {details}",
            "check whether the runtime's unit restarts" + again,
        )
    if code == "UNAVAILABLE":
        hint = "check that the runtime's unit is active"
        if "Permission denied" in details:
            hint = "run as root, or as a user who may write to the socket"
        return RuntimeUnavailable(f"no connection to a runtime at {socket}: {verb}: {details}", hint)
    if code == "DEADLINE_EXCEEDED":
        return RuntimeSilent(
            f"the runtime at {socket} gave no answer to {verb} after {took:.1f} s (limit {limit:g} s)",
            "it is overloaded, hangs, or the socket is another program's" + again,
        )
    # containerd's own wait for a shim that hangs is about as long as ours for it (UNKNOWN: "failed to kill container:
    # context deadline exceeded"). The shim may still do it when it goes on.
    if acts and "deadline exceeded" in details:
        return RuntimeSilent(
            f"the runtime at {socket} gave up {verb} without an answer: {details}",
            "what it asked in turn, a shim or conmon, hangs" + again,
        )
    if code == "NOT_FOUND":
        return NotFound(f"the runtime at {socket} does not know what {verb} named: {details}", "list again")
    # The library says so of what it receives; containerd and CRI-O (grpc-go) of what they would send.
    if code == "RESOURCE_EXHAUSTED" and "message larger than max" in details:
        return AnswerTooLarge(
            f"the answer of {socket} to {verb} is too large: {details}",
            "remove exited containers and old sandboxes (kubelet's garbage collection)" + again,
        )
    hint = "see the runtime's journal"
    if code == "UNIMPLEMENTED":
        hint = "the runtime's CRI plugin is disabled, or older than CRI v1 (containerd 1.6, CRI-O 1.20)"
    return RuntimeRefused(f"the runtime at {socket} refused {verb}: {code}: {details}", hint + again, code)


def _check_socket(path: str) -> None:
    hint = "start the container runtime: `systemctl status` of its unit says why it is down"
    if not path.startswith("/") or "\0" in path:
        raise RuntimeUnavailable(f"{line(ascii(path), 120)} is no absolute path of a socket", hint)
    if len(os.fsencode(path)) > _MAX_PATH:
        raise RuntimeUnavailable(f"the path {line(path, 200)} is too long for a socket", f"at most {_MAX_PATH} bytes")
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise RuntimeUnavailable(f"no socket at {path}", hint) from None
    except OSError as error:
        raise RuntimeUnavailable(f"no look at {path}: {error.strerror}", hint) from None
    if not stat.S_ISSOCK(mode):
        raise RuntimeUnavailable(f"no socket at {path}, but something else", hint)


def _bounded(seconds: float) -> float:
    if not (math.isfinite(seconds) and 0 < seconds <= MAX_DEADLINE):
        raise ValueError(f"a time limit must be above 0 and at most {MAX_DEADLINE:g} s, not {seconds!r}")
    return seconds


def line(text: str, most: int) -> str:
    """One printable line of at most `most` characters: a peer must not forge a line of the journal."""
    clean = "".join(c if c.isprintable() else " " for c in text[: most + 1])
    return clean if len(clean) <= most else clean[: most - 1] + "…"


_Self = TypeVar("_Self", bound="Client")


class Client:
    """What the reading and the writing half share: one channel, closed by `with`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @classmethod
    def connect(cls: type[_Self], socket: str, *, deadline: float) -> _Self:
        """A runtime at the absolute path of a socket; `deadline` is the seconds that each call may last, a stop's
        besides its grace period.

        Raises RuntimeUnavailable if no unix socket is there. The connection is made by the first call.
        """
        return cls(Channel(socket, deadline))

    def close(self) -> None:
        """Ends the connection; a second time does nothing."""
        self._channel.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

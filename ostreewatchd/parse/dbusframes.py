# SPDX-License-Identifier: Apache-2.0
"""The stream of a D-Bus connection, cut into messages, of which none is longer than is wanted.

Any local user may send a message of up to 128 MiB to anybody on the system bus, and to decode one takes long. What
is too long is read past: a body is left out, a message with too long a header is dropped.

Source: D-Bus Specification, Message Format."""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAX_HEADER, MAX_BODY = 8 << 10, 32 << 10
"""Bytes. What is listened to has a hundredth of that; a bus's list of names, some KiB."""
_FIXED = 16
_MAX_MESSAGE = 128 << 20
"""By the specification."""
_ENDIANS = {ord("l"): "<", ord("B"): ">"}
_VERSION = 1


class FrameError(ValueError):
    """What came is no message: where the next one begins is not known."""


class Frames:
    """Holds what has come of a message that is not whole yet: no more than one of the longest."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._skip = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that are whole with `data`. Raises FrameError."""
        past = min(self._skip, len(data))
        self._skip -= past
        self._held += memoryview(data)[past:]
        while len(self._held) >= _FIXED:
            endian = _ENDIANS.get(self._held[0])
            if endian is None or self._held[3] != _VERSION:
                raise FrameError(f"no message begins with {bytes(self._held[:4])!r}")
            body, _, fields = struct.unpack_from(f"{endian}III", self._held, 4)
            header = _FIXED + fields + -fields % 8
            if header + body > _MAX_MESSAGE:
                raise FrameError(f"a message of {header + body} bytes")
            if fields > MAX_HEADER:
                self._drop(header + body)
            elif len(self._held) < header:
                return
            elif body > MAX_BODY:
                # Its length becomes zero; what the header says of its types stays.
                frame = bytes(self._held[:4]) + bytes(4) + bytes(self._held[8:header])
                self._drop(header + body)
                yield frame
            elif len(self._held) < header + body:
                return
            else:
                frame = bytes(self._held[: header + body])
                self._drop(header + body)
                yield frame

    def _drop(self, count: int) -> None:
        here = min(count, len(self._held))
        del self._held[:here]
        self._skip = count - here

# SPDX-License-Identifier: Apache-2.0
"""As much of protobuf's wire format as a proxy needs that changes a field or two and passes on the rest.

The numbers are those of the published runtime.v1 (module k8s.io/cri-api, v0.34.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Union

Value = Union[int, bytes]
Fields = list[tuple[int, Value]]


class Malformed(ValueError):
    """The bytes are no message."""


def decode(data: bytes) -> Fields:
    """All fields in order: number and value, an int for a varint. Raises Malformed."""
    found: Fields = []
    at = 0
    try:
        while at < len(data):
            key, at = _varint(data, at)
            number, kind = key >> 3, key & 7
            if kind == 0:
                value, at = _varint(data, at)
                found.append((number, value))
            elif kind == 2:
                length, at = _varint(data, at)
                if at + length > len(data):
                    raise Malformed("cut off")
                found.append((number, data[at : at + length]))
                at += length
            else:
                raise Malformed(f"wire type {kind}: CRI has none")
    except IndexError:
        raise Malformed("cut off") from None
    return found


def encode(fields: Fields) -> bytes:
    return b"".join(field(number, value) for number, value in fields)


def field(number: int, value: Union[int, bytes, str, bool]) -> bytes:
    """One field."""
    if isinstance(value, int):
        return _bytes(number << 3) + _bytes(value)
    data = value.encode() if isinstance(value, str) else value
    return _bytes(number << 3 | 2) + _bytes(len(data)) + data


def message(data: bytes, number: int) -> bytes:
    """The last submessage of that number, empty where there is none."""
    found = [value for each, value in decode(data) if each == number and isinstance(value, bytes)]
    return found[-1] if found else b""


def text(data: bytes, number: int) -> str:
    return message(data, number).decode("utf-8", "replace")


def number(data: bytes, number: int) -> int:
    found = [value for each, value in decode(data) if each == number and isinstance(value, int)]
    return found[-1] if found else 0


def messages(data: bytes, number: int) -> Iterator[bytes]:
    """All submessages of that number."""
    return (value for each, value in decode(data) if each == number and isinstance(value, bytes))


def replaced(data: bytes, number: int, *values: Union[int, bytes, str]) -> bytes:
    """The message with these in place of all fields of that number; none of them: without it."""
    kept = encode([(each, value) for each, value in decode(data) if each != number])
    return kept + b"".join(field(number, value) for value in values)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
        if shift > 63:
            raise Malformed("a varint without end")


def _bytes(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)

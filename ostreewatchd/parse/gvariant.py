# SPDX-License-Identifier: Apache-2.0
"""GVariant: the bytes of a value of known type, as libostree writes its files in /run/ostree.

GLib makes a default value of whatever is not in normal form. Here that is an error: a file that was torn must not
read as one that says nothing. Bytes that are accepted are the only ones that stand for their value.

Source: the GVariant specification (Larsson, Lortie: alignment, framing offsets, normal form); gvariant-serialiser.c
(offsets are little-endian, numbers are the machine's)."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import Any

MAX_BYTES = 256 << 10
_MAX_TYPE = 64
_MAX_DEPTH = 8
_NUMBERS = {"b": "B", "y": "B", "n": "h", "q": "H", "i": "i", "u": "I", "x": "q", "t": "Q", "h": "i", "d": "d"}
_SIZES = {kind: struct.calcsize(code) for kind, code in _NUMBERS.items()}


class GVariantError(ValueError):
    """Not the bytes of a value of this type in normal form; too large, or too deep."""


def decode(kind: str, data: bytes, byteorder: str = sys.byteorder) -> Any:
    """The value of type `kind` (`a{sv}`) in `data`: bool, int, float, str, tuple, list, and dict for an array of
    entries. A variant is the value in it. `byteorder`: of the machine that wrote it. Raises GVariantError."""
    if len(data) > MAX_BYTES:
        raise GVariantError(f"larger than {MAX_BYTES} bytes")
    return _Decoder(data, "<" if byteorder == "little" else ">").value(_type(kind), 0, len(data), 0)


class _Type:
    """A parsed type. `size` 0: not the same for all values."""

    def __init__(self, code: str, inside: tuple[_Type, ...], alignment: int, size: int) -> None:
        self.code = code
        self.inside = inside
        self.alignment = alignment
        self.size = size


def _type(text: str) -> _Type:
    if len(text) > _MAX_TYPE:
        raise GVariantError(f"a type of more than {_MAX_TYPE} characters")
    found, end = _type_at(text, 0, 0)
    if end != len(text):
        raise GVariantError(f"{text!r} is no type")
    return found


def _type_at(text: str, at: int, depth: int) -> tuple[_Type, int]:
    code = text[at : at + 1]
    if depth > _MAX_DEPTH or not code:
        raise GVariantError(f"{text!r} is no type, or too deep")
    if code in _NUMBERS:
        return _Type(code, (), _SIZES[code], _SIZES[code]), at + 1
    if code == "s":
        return _Type(code, (), 1, 0), at + 1
    if code == "v":
        return _Type(code, (), 8, 0), at + 1
    if code == "a":
        inside, end = _type_at(text, at + 1, depth + 1)
        return _Type(code, (inside,), inside.alignment, 0), end
    if code in "({":
        close = ")" if code == "(" else "}"
        members, end = [], at + 1
        while text[end : end + 1] != close:
            member, end = _type_at(text, end, depth + 1)
            members.append(member)
        if code == "{" and (len(members) != 2 or members[0].code not in {*_NUMBERS, "s"}):
            raise GVariantError(f"{text!r} is no type")
        return _structure(code, members), end + 1
    raise GVariantError(f"{text!r} is no type that is read here")


def _structure(code: str, members: list[_Type]) -> _Type:
    alignment = max((member.alignment for member in members), default=1)
    size = 0
    for member in members:
        if not member.size:
            return _Type(code, tuple(members), alignment, 0)
        size = _aligned(size, member.alignment) + member.size
    return _Type(code, tuple(members), alignment, _aligned(size, alignment) or 1)


def _aligned(at: int, alignment: int) -> int:
    return (at + alignment - 1) & -alignment


def _offset_size(size: int) -> int:
    """Of a framing offset in a container of `size` bytes."""
    return next(width for width in (1, 2, 4, 8) if size < 1 << (8 * width))


class _Decoder:
    def __init__(self, data: bytes, order: str) -> None:
        self._data = data
        self._order = order

    def value(self, kind: _Type, start: int, end: int, depth: int) -> Any:
        """What is in `data[start:end]`; `start` is aligned."""
        if depth > _MAX_DEPTH:
            raise GVariantError(f"deeper than {_MAX_DEPTH}")
        if kind.size and end - start != kind.size:
            raise GVariantError(f"{end - start} bytes at {start} where {kind.size} are due")
        if kind.code in _NUMBERS:
            (number,) = struct.unpack(self._order + _NUMBERS[kind.code], self._data[start:end])
            if kind.code != "b":
                return number
            if number > 1:
                raise GVariantError(f"{number} at {start} is neither true nor false")
            return bool(number)
        if kind.code == "s":
            return self._text(start, end)
        if kind.code == "v":
            return self._variant(start, end, depth)
        if kind.code == "a":
            return self._array(kind.inside[0], start, end, depth)
        return tuple(self._members(kind, start, end, depth))

    def _text(self, start: int, end: int) -> str:
        data = self._data[start:end]
        if data.find(b"\0") != len(data) - 1 or not data:
            raise GVariantError(f"no text at {start}")
        try:
            return data[:-1].decode("utf-8")
        except UnicodeDecodeError:
            raise GVariantError(f"the text at {start} is not UTF-8") from None

    def _variant(self, start: int, end: int, depth: int) -> Any:
        middle = self._data.rfind(b"\0", start, end)
        if middle < 0:
            raise GVariantError(f"no type at {start}")
        try:
            kind = _type(self._data[middle + 1 : end].decode("ascii"))
        except UnicodeDecodeError:
            raise GVariantError(f"no type at {start}") from None
        return self.value(kind, start, middle, depth + 1)

    def _array(self, kind: _Type, start: int, end: int, depth: int) -> Any:
        if kind.size:
            if (end - start) % kind.size:
                raise GVariantError(f"{end - start} bytes at {start} where each element has {kind.size}")
            bounds = [(at, at + kind.size) for at in range(start, end, kind.size)]
        else:
            bounds = list(self._elements(kind, start, end))
        found = [self.value(kind, first, last, depth + 1) for first, last in bounds]
        if kind.code != "{":
            return found
        entries = dict(found)
        if len(entries) != len(found):
            raise GVariantError(f"a key twice in the dictionary at {start}")
        return entries

    def _elements(self, kind: _Type, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Where the elements are, by the offsets of their ends behind the last of them."""
        if start == end:
            return
        width = _offset_size(end - start)
        table = start + self._offset(end - width, width, start, end)
        count, rest = divmod(end - table, width)
        if rest or not count:
            raise GVariantError(f"the offsets of the array at {start} are out of place")
        before = start
        for number in range(count):
            first = self._skip(before, kind.alignment, table)
            before = start + self._offset(table + number * width, width, start, end)
            if not first <= before <= table:
                raise GVariantError(f"the offsets of the array at {start} are out of order")
            yield first, before

    def _members(self, kind: _Type, start: int, end: int, depth: int) -> Iterator[Any]:
        """The members of a tuple or an entry. Those of no fixed size, but for the last member, have the offset of
        their end at the end, in reverse order."""
        if not kind.inside:
            if self._data[start:end] != b"\0":
                raise GVariantError(f"no empty tuple at {start}")
            return
        width = _offset_size(end - start)
        offsets = sum(not member.size for member in kind.inside[:-1])
        limit = end - offsets * width
        at, taken = start, 0
        for member in kind.inside:
            first = self._skip(at, member.alignment, limit)
            if member.size:
                at = first + member.size
            elif member is kind.inside[-1] and taken == offsets:
                at = limit
            else:
                taken += 1
                at = start + self._offset(end - taken * width, width, start, end)
            if not first <= at <= limit:
                raise GVariantError(f"the offsets of the structure at {start} are out of place")
            yield self.value(member, first, at, depth + 1)
        if kind.size:
            at = self._skip(at, kind.alignment, limit)
        if at != limit:
            raise GVariantError(f"{limit - at} bytes too many at {at}")

    def _offset(self, at: int, width: int, start: int, end: int) -> int:
        if at < start:
            raise GVariantError(f"no offset at {at}")
        offset = int.from_bytes(self._data[at : at + width], "little")
        if offset > end - start:
            raise GVariantError(f"the offset at {at} leads out of its container")
        return offset

    def _skip(self, at: int, alignment: int, limit: int) -> int:
        """Behind the padding, which is of zeros."""
        to = _aligned(at, alignment)
        if to > limit or any(self._data[at:to]):
            raise GVariantError(f"no padding at {at}")
        return to

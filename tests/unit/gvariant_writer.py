# SPDX-License-Identifier: Apache-2.0
"""Writes GVariant, for tests: what is read must be what this writes, byte for byte, and nothing else."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Union

from ostreewatchd.model import Identity


class Pair(NamedTuple):
    """A `(tt)`."""

    first: int
    second: int


Value = Union[bool, str, Pair, Sequence[str], Mapping[str, "Value"]]


def dictionary(values: Mapping[str, Value], order: str = "<") -> bytes:
    """An `a{sv}`; numbers in the byte order of `order`, which framing offsets never are."""
    return _array([_entry(name, value, order) for name, value in values.items()], 8)


def booted(root: Union[Identity, None] = None, order: str = "<", **more: Value) -> bytes:
    """/run/ostree-booted."""
    record: dict[str, Value] = {} if root is None else {"backing-root-device-inode": Pair(root.dev, root.ino)}
    return dictionary({**record, **{name.replace("_", "-"): value for name, value in more.items()}}, order)


def staged(checksum: str, stateroot: str = "debian", *, serial: int = 0, **more: Value) -> bytes:
    """/run/ostree/staged-deployment."""
    target = {"name": f"{checksum}.{serial}", "osname": stateroot, "bootcsum": "b" * 64}
    return dictionary({"target": target, **more})


def _entry(name: str, value: Value, order: str) -> bytes:
    key = _text(name)
    kind, data = _value(value, order)
    body = _padded(key, 8) + data + b"\0" + kind.encode()
    return _framed(body, [len(key)])


def _value(value: Value, order: str) -> tuple[str, bytes]:
    if isinstance(value, bool):
        return "b", bytes([value])
    if isinstance(value, str):
        return "s", _text(value)
    if isinstance(value, Pair):
        return "(tt)", struct.pack(f"{order}QQ", *value)
    if isinstance(value, Mapping):
        return "a{sv}", dictionary(value, order)
    return "as", _array([_text(one) for one in value], 1)


def _array(parts: Sequence[bytes], alignment: int) -> bytes:
    body, ends = b"", []
    for part in parts:
        body = _padded(body, alignment) + part
        ends.append(len(body))
    return _framed(body, ends)


def _framed(body: bytes, offsets: Sequence[int]) -> bytes:
    for width in (1, 2, 4):
        if len(body) + width * len(offsets) < 1 << 8 * width:
            return body + b"".join(offset.to_bytes(width, "little") for offset in offsets)
    raise ValueError("too large for a test")


def _padded(data: bytes, alignment: int) -> bytes:
    return data + bytes(-len(data) % alignment)


def _text(text: str) -> bytes:
    return text.encode() + b"\0"

# SPDX-License-Identifier: Apache-2.0
"""The text of a saved snapshot: JSON of the frozen Snapshot type and nothing else, and back.

A path may have bytes that are no UTF-8, which JSON has no way to say (and Python holds as surrogates, PEP 383). A text
with such bytes is written as `bytes:` and the text with each of them, and each `%`, as %XX; so is a text that begins
with `bytes:` by itself. All other texts are written as they are."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ostreewatchd.model import SNAPSHOT_FORMAT, Snapshot
from ostreewatchd.replay.fields import Kind, change_texts
from ostreewatchd.replay.older import MARK, upgraded

MAX_BYTES = 32 << 20
"""Of a file: what is larger is not read, and not written."""
_SANE = 1e12
"""Seconds: no time in a snapshot is further from the epoch (the year 33658) than that."""
_LONE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile("%([0-9A-F]{2})")
_PERCENT = re.compile("%(?![0-9A-F]{2})")


class SnapshotError(Exception):
    """A file cannot be used as a snapshot. The text says why, without naming the file."""


class NotJson(SnapshotError):
    """It is no JSON text, or one that was cut off."""


class NotASnapshot(SnapshotError):
    """It is JSON, and nobody's snapshot."""


class NewerFormat(SnapshotError):
    """A newer version of the product wrote it."""


class TooLarge(SnapshotError):
    """It has more bytes than a snapshot may have."""


class Damaged(SnapshotError):
    """It is a snapshot, and a field of it is not what it must be."""


def dump(snapshot: Snapshot) -> bytes:
    """The file's content, ready to be read by people too. Raises TooLarge: `bounds.bounded` prevents that."""
    data = encode(snapshot) + b"\n"
    if len(data) > MAX_BYTES:
        raise TooLarge(f"the snapshot has {len(data)} bytes, above {MAX_BYTES}")
    return data


def encode(snapshot: Snapshot) -> bytes:
    """As `dump`, of any size."""
    return msgspec.json.format(msgspec.json.encode(change_texts(snapshot, _say)), indent=1)


def load(data: bytes) -> Snapshot:
    """The snapshot that the bytes are. Unknown fields are ignored, fields that an older format has not have their
    defaults. Raises NotJson, NotASnapshot, NewerFormat, TooLarge, Damaged."""
    if len(data) > MAX_BYTES:
        raise TooLarge(f"it has more than {MAX_BYTES} bytes, and no snapshot has")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJson(f"it is no JSON text: {error}") from error
    _check_kind(document)
    try:
        snapshot: Snapshot = change_texts(msgspec.convert(upgraded(document), Snapshot), _hear)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Damaged(f"it is a damaged snapshot: {error}") from error
    check_numbers(snapshot, "$")
    return snapshot


def _check_kind(document: Any) -> None:
    if not isinstance(document, dict) or not {"format", "product", "taken_at", "node", "live"} <= document.keys():
        raise NotASnapshot(
            "it is JSON, and not a snapshot of ostreewatchctl's: it lacks format, product, time, node or live state"
        )
    known = document["format"]
    if not isinstance(known, int) or isinstance(known, bool) or known < 1:
        raise Damaged(f"it is a damaged snapshot: its format is {str(known)[:40]!r}, and must be a number from 1 on")
    if known > SNAPSHOT_FORMAT:
        product = str(document["product"])[:40]
        raise NewerFormat(
            f"it has format {known}, written by ostreewatchd {product}; this version reads formats up to"
            f" {SNAPSHOT_FORMAT}: use a newer one"
        )


def check_numbers(thing: Any, where: str) -> None:
    """Whatever shows a time may rely on it being one."""
    if isinstance(thing, float):
        if not -_SANE <= thing <= _SANE:
            raise Damaged(f"it is a damaged snapshot: {thing:g} is no time - at `{where}`")
    elif isinstance(thing, msgspec.Struct):
        for name in thing.__struct_fields__:
            check_numbers(getattr(thing, name), f"{where}.{name}")
    elif isinstance(thing, tuple):
        for index, one in enumerate(thing):
            check_numbers(one, f"{where}[{index}]")


def _say(text: str, _: Kind) -> str:
    if not text.startswith(MARK) and (text.isascii() or _LONE.search(text) is None):
        return text
    return MARK + "".join(_escaped(char) for char in text)


def _escaped(char: str) -> str:
    if char == "%":
        return "%25"
    if not "\ud800" <= char <= "\udfff":
        return char
    # A surrogate that stands for no byte is in no text of the kernel's; it cannot be written at all.
    return f"%{ord(char) - 0xDC00:02X}" if "\udc80" <= char <= "\udcff" else "\ufffd"


def _hear(text: str, _: Kind) -> str:
    if not text.startswith(MARK):
        return text
    rest = text[len(MARK) :]
    if _PERCENT.search(rest):
        raise Damaged(f"it is a damaged snapshot: {text[:60]!r} has a % that is no %XX")
    return _ESCAPED.sub(_byte, rest)


def _byte(match: re.Match[str]) -> str:
    code = int(match.group(1), 16)
    if code == 0x25:
        return "%"
    if code < 0x80:
        raise Damaged(f"it is a damaged snapshot: {match.group()} is no byte that must be escaped")
    return chr(0xDC00 + code)

# SPDX-License-Identifier: Apache-2.0
"""The certificates in a PEM file: of each its subject's common name, its beginning and its end, and nothing else. Keys
that may stand beside them are not decoded.

Source: RFC 7468 (PEM), RFC 5280 §4.1 (Certificate), X.690 (DER)."""

from __future__ import annotations

import base64
import binascii
import calendar
import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_BYTES = 256 << 10
_MAX_CERTIFICATES = 50
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]{1,65536})-----END CERTIFICATE-----")
_TIME = re.compile(r"(\d{2}|\d{4})(\d{2})(\d{2})(\d{2})(\d{2})(\d{2})Z", re.ASCII)
_SEQUENCE, _SET, _OID, _UTC_TIME, _GENERALIZED_TIME, _VERSION = 0x30, 0x31, 0x06, 0x17, 0x18, 0xA0
_COMMON_NAME = bytes((0x55, 0x04, 0x03))
_ENCODINGS = {0x0C: "utf-8", 0x13: "ascii", 0x14: "latin-1", 0x16: "ascii", 0x1E: "utf-16-be"}


class CertificateError(ValueError):
    """Not a certificate, or one that is cut off."""


class Known(NamedTuple):
    """Times in seconds since the epoch."""

    subject: str
    ends_at: float
    starts_at: float


def parse(data: bytes) -> list[Known]:
    """Those in a PEM file; a block that is none is left out, like all that is no certificate."""
    found: list[Known] = []
    for match in _BLOCK.finditer(data[:MAX_BYTES]):
        try:
            found.append(of_der(base64.b64decode(match.group(1))))
        except (CertificateError, binascii.Error):
            continue
        if len(found) >= _MAX_CERTIFICATES:
            break
    return found


def of_der(data: bytes) -> Known:
    """One certificate. Raises CertificateError."""
    certificate = _only(data, _SEQUENCE)
    fields = _parts(_first(certificate, _SEQUENCE))
    tag, _ = next(fields, (0, b""))
    # After an optional version and the serial number: signature, issuer, validity, subject.
    for _ in range(3 if tag == _VERSION else 2):
        next(fields, None)
    validity, subject = next(fields, (0, b"")), next(fields, (0, b""))
    if validity[0] != _SEQUENCE or subject[0] != _SEQUENCE:
        raise CertificateError("has no validity or no subject")
    times = list(_parts(validity[1]))
    if len(times) != 2:
        raise CertificateError("its validity has no two times")
    return Known(_common_name(subject[1]), _moment(*times[1]), _moment(*times[0]))


def _moment(tag: int, data: bytes) -> float:
    match = _TIME.fullmatch(data.decode("ascii", "replace"))
    if match is None or len(match.group(1)) != {_UTC_TIME: 2, _GENERALIZED_TIME: 4}.get(tag):
        raise CertificateError("its end or its beginning is no time")
    year, month, day, hour, minute, second = map(int, match.groups())
    if tag == _UTC_TIME:
        year += 1900 if year >= 50 else 2000
    if not (year >= 1970 and 1 <= month <= 12 and 1 <= day <= 31 and hour <= 23 and minute <= 59 and second <= 60):
        raise CertificateError("its end or its beginning is no time")
    return float(calendar.timegm((year, month, day, hour, minute, second, 0, 0, 0)))


def _common_name(subject: bytes) -> str:
    for tag, name in _parts(subject):
        for _, pair in _parts(name) if tag == _SET else ():
            parts = list(_parts(pair))
            if len(parts) == 2 and parts[0] == (_OID, _COMMON_NAME):
                return parts[1][1].decode(_ENCODINGS.get(parts[1][0], "utf-8"), "replace")[:256]
    return ""


def _only(data: bytes, tag: int) -> bytes:
    parts = list(_parts(data))
    if len(parts) != 1:
        raise CertificateError("is not one value")
    return _of(parts[0], tag)


def _first(data: bytes, tag: int) -> bytes:
    return _of(next(_parts(data), (0, b"")), tag)


def _of(part: tuple[int, bytes], tag: int) -> bytes:
    if part[0] != tag:
        raise CertificateError(f"has {part[0]:#x} where {tag:#x} is to be")
    return part[1]


def _parts(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each value in a row. Raises CertificateError."""
    at = 0
    while at < len(data):
        tag, at = data[at], at + 1
        length, at = _length(data, at)
        if at + length > len(data):
            raise CertificateError("is cut off")
        yield tag, data[at : at + length]
        at += length


def _length(data: bytes, at: int) -> tuple[int, int]:
    if at >= len(data):
        raise CertificateError("is cut off")
    first = data[at]
    if first < 0x80:
        return first, at + 1
    size = first & 0x7F
    if not 1 <= size <= 4 or at + 1 + size > len(data):
        raise CertificateError("has a length that is none")
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size

# SPDX-License-Identifier: Apache-2.0
"""The names of the types in a compiled SELinux policy, by the form in which they are written, not by the whole of it:
the policy on disk is held against the one that is loaded, and the bytes of the two need not be the same.

Source: selinux libsepol/src/write.c, type_write: length, value, properties, bounds (each of four bytes, little-endian;
policy version 24 and later), then the name."""

from __future__ import annotations

import re
import struct

MAX_BYTES = 64 << 20
_NAME = re.compile(rb"[A-Za-z][A-Za-z0-9_.]*")
_HEAD = 16
_LONGEST = 256


def types(data: bytes) -> frozenset[str]:
    """Those that end as types do by convention (`_t`); empty for what is no policy."""
    found = set()
    for match in _NAME.finditer(data):
        # What stands before a name may look like a part of it, so each place is tried from which the length fits.
        for start in range(match.start(), min(match.end(), match.start() + 4)):
            if start < _HEAD:
                continue
            (length,) = struct.unpack_from("<I", data, start - _HEAD)
            if 2 < length <= _LONGEST and start + length <= match.end():
                name = data[start : start + length]
                if name.endswith(b"_t"):
                    found.add(name.decode("ascii"))
                    break
    return frozenset(found)

# SPDX-License-Identifier: Apache-2.0
"""A boot loader entry that ostree wrote: its rank and the deployment that it boots.

Source: The Boot Loader Specification (type 1 entries); ostree-sysroot.c (`ostree=` on the kernel's command
line is a link below /ostree/boot.N)."""

from __future__ import annotations

import re
from typing import NamedTuple, Optional

MAX_BYTES = 64 << 10
_OSTREE = re.compile(r"(?:^|\s)ostree=(/ostree/boot\.[01](?:\.[01])?/[^/\s]+/[^/\s]+/\d+)(?:\s|$)")


class BootEntry(NamedTuple):
    """`version`: the higher one is booted next. `link`: what resolves to the deployment."""

    version: int
    link: str


def parse(data: bytes) -> Optional[BootEntry]:
    """None if it is no entry of ostree's."""
    version, link = 0, ""
    for line in data[:MAX_BYTES].decode("utf-8", "replace").splitlines():
        key, _, value = line.strip().partition(" ")
        if key == "version" and value.strip().isdecimal():
            version = int(value.strip()[:9])
        elif key == "options":
            match = _OSTREE.search(value)
            link = match.group(1) if match else link
    return BootEntry(version, link) if link else None

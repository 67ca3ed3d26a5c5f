# SPDX-License-Identifier: Apache-2.0
"""What libostree's files in /run/ostree and rpm-ostree's references say.

Source: otcore.h and ostree-prepare-root.c (/run/ostree-booted), ostree-soft-reboot.c (nextroot-booted: the same
form), ostree-sysroot-deploy.c (staged-deployment), rpm-ostree live.rs (references, stamp)."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple, Optional

from ostreewatchd.model import Identity
from ostreewatchd.parse import gvariant

MAX_BYTES = gvariant.MAX_BYTES
_NAME = re.compile(r"[0-9a-f]{64}\.[0-9]{1,9}\Z")
_CHECKSUM = re.compile(r"[0-9a-f]{64}\Z")
_MOST_DEVICE = 1 << 32
"""The kernel's device numbers have 32 bits, so one that was written with the other byte order is larger."""


class OstreeStateError(ValueError):
    """The file is not what libostree writes: torn, corrupt, or of another byte order."""


class BootedRecord(NamedTuple):
    """/run/ostree-booted or nextroot-booted. `root` is the deployment's directory, None where an older libostree
    did not write it."""

    root: Optional[Identity]
    composefs: bool
    transient_etc: str


class StagedRecord(NamedTuple):
    """/run/ostree/staged-deployment: the deployment's full name, and whether its finalization is locked."""

    deployment: str
    locked: bool


def booted(data: bytes, byteorder: str = sys.byteorder) -> BootedRecord:
    """Raises OstreeStateError. An empty file is what older versions wrote, and says nothing."""
    values = _dictionary(data, byteorder)
    pair = values.get("backing-root-device-inode")
    root: Optional[Identity] = None
    if pair is not None:
        if not (isinstance(pair, tuple) and len(pair) == 2 and all(type(one) is int for one in pair)):
            raise OstreeStateError("backing-root-device-inode is no device and inode")
        if not 0 < pair[0] < _MOST_DEVICE or pair[1] <= 0:
            raise OstreeStateError(f"backing-root-device-inode is {pair[0]}:{pair[1]}, which no directory has")
        root = Identity(dev=pair[0], ino=pair[1])
    etc = _of_type(values, "transient-etc", str, "")
    if etc and (not etc.startswith("/") or ".." in etc.split("/")):
        raise OstreeStateError("transient-etc is no path")
    return BootedRecord(root, _of_type(values, "composefs", bool, False), etc)


def staged(data: bytes, byteorder: str = sys.byteorder) -> StagedRecord:
    """Raises OstreeStateError."""
    values = _dictionary(data, byteorder)
    target = _of_type(values, "target", dict, {})
    name, stateroot = _of_type(target, "name", str, ""), _of_type(target, "osname", str, "")
    if not _NAME.match(name) or not stateroot or "/" in stateroot:
        raise OstreeStateError("it names no deployment")
    return StagedRecord(f"{stateroot}-{name}", _of_type(values, "locked", bool, False))


def commit(data: bytes) -> str:
    """The commit that a reference names. Raises OstreeStateError."""
    text = data[:MAX_BYTES].decode("ascii", "replace").strip()
    if not _CHECKSUM.match(text):
        raise OstreeStateError("it names no commit")
    return text


def is_hotfix(origin: bytes) -> bool:
    """Whether a deployment's .origin says that it was unlocked for good (`[origin] unlocked=hotfix`)."""
    section = value = ""
    for line in origin[:MAX_BYTES].decode("utf-8", "replace").splitlines():
        text = line.strip()
        if text.startswith("[") and text.endswith("]"):
            section = text
        elif section == "[origin]" and "=" in text:
            name, _, rest = text.partition("=")
            if name.strip() == "unlocked":
                value = rest.strip()  # Of a key that is there twice GKeyFile takes the last.
    return value == "hotfix"


def _dictionary(data: bytes, byteorder: str) -> dict[str, Any]:
    try:
        values = gvariant.decode("a{sv}", data, byteorder)
    except gvariant.GVariantError as error:
        raise OstreeStateError(f"not in GVariant's normal form: {error}") from None
    found: dict[str, Any] = values
    return found


def _of_type(values: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = values.get(name, default)
    if not isinstance(value, kind):
        raise OstreeStateError(f"{name} is no {kind.__name__}")
    return value

# SPDX-License-Identifier: Apache-2.0
"""What was told while the ledger could not remember it: a file in /run, so that a full disk does not fill the
journal too, with the same words at each run. The unit's RuntimeDirectory=, which the watcher cannot write."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

PATH = "/run/ostreewatchd-remediate/told.json"
_TOLD_AGAIN = 3600.0
"""Seconds of CLOCK_BOOTTIME after which what goes on is told once more."""
_MAX_BYTES = 1 << 20
_MAX_TEXTS = 1000


def news(texts: Sequence[str], boottime: float, path: str = PATH) -> tuple[str, ...]:
    """Those of the texts that are new since the call before, or were not told for an hour. Where nothing can be
    remembered, all are."""
    before = _read(path)
    told: dict[str, float] = {}
    new = []
    for text in texts[:_MAX_TEXTS]:
        at = before.get(text)
        if at is None or not 0 <= boottime - at < _TOLD_AGAIN:
            new.append(text)
            at = boottime
        told[text] = at
    _write(path, told)
    return tuple(new)


def _read(path: str) -> dict[str, float]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return {}
    try:
        return msgspec.json.decode(os.read(fd, _MAX_BYTES), type=dict[str, float])
    except (OSError, msgspec.MsgspecError):
        return {}
    finally:
        os.close(fd)


def _write(path: str, told: dict[str, float]) -> None:
    new = f"{path}.new"
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, msgspec.json.encode(told))
        finally:
            os.close(fd)
        os.rename(new, path)
    except OSError:
        return  # Told once more next time: no harm.

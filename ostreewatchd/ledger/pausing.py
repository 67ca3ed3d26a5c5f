# SPDX-License-Identifier: Apache-2.0
"""The pause that a person ordered: a small file beside the ledger, so that neither a corrupt ledger nor one that was
set aside ends it. Root writes it, everybody may read it; a rename makes it whole or not there."""

from __future__ import annotations

import os
from typing import Optional

import msgspec

from ostreewatchd.model import History, Pause

_NAME = "pause.json"
_MAX_BYTES = 4096
_MAX_WHY = 500


def with_pause(history: History, directory: str) -> History:
    """The history, with the pause of that directory in it."""
    pause = read(directory)
    return msgspec.structs.replace(history, pause=pause) if pause is not None else history


def read(directory: str) -> Optional[Pause]:
    """The pause, also one that is over; None: there is none. One that cannot be read says so in `problem`: somebody
    wanted one."""
    path = os.path.join(directory, _NAME)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        return Pause(problem=f"{path}: {error.strerror}")
    try:
        return msgspec.json.decode(os.read(fd, _MAX_BYTES), type=Pause)
    except (OSError, msgspec.MsgspecError) as error:
        return Pause(problem=f"{path}: {error}")
    finally:
        os.close(fd)


def write(directory: str, pause: Pause) -> None:
    """Raises OSError."""
    path, new = os.path.join(directory, _NAME), os.path.join(directory, f".{_NAME}.new")
    kept = msgspec.structs.replace(pause, who=_short(pause.who), why=_short(pause.why))
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        os.fchmod(fd, 0o644)
        os.write(fd, msgspec.json.encode(kept))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(new, path)
    _sync(directory)


def remove(directory: str) -> bool:
    """Whether there was one. Raises OSError."""
    try:
        os.unlink(os.path.join(directory, _NAME))
    except FileNotFoundError:
        return False
    _sync(directory)
    return True


def _short(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()[:_MAX_WHY]


def _sync(directory: str) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

# SPDX-License-Identifier: Apache-2.0
"""The request: a file whose being there is all that it says. Made by the watcher, waited for by
ostreewatchd-remediate.path, removed by the remediation."""

from __future__ import annotations

import errno
import os

WANTED = "/run/ostreewatchd/wanted"


def ask(path: str = WANTED) -> None:
    """Make the request, or leave the one that is there. A link in its place is nobody's request and is removed.
    Raises OSError."""
    try:
        _make(path)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        os.unlink(path)
        _make(path)


def _make(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644))

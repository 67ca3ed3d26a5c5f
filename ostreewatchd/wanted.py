# SPDX-License-Identifier: Apache-2.0
"""The request: a file whose being there is all that it says. Made by the watcher or by a person's verb, waited for by
ostreewatchd-remediate.path, removed by the remediation."""

from __future__ import annotations

import os
import stat

WANTED = "/run/ostreewatchd/wanted"
_TRIES = 3


def ask(path: str = WANTED) -> None:
    """Make the request, or leave the one that is there, whoever made it: root's cannot be opened by the watcher's
    user, and need not be, for it is removed before a remediation looks. A link in its place is nobody's request and
    is removed. Raises OSError."""
    for last in (*[False] * (_TRIES - 1), True):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644))
            return
        except FileExistsError:
            if last:
                raise
        try:
            if not stat.S_ISLNK(os.lstat(path).st_mode):
                return
            os.unlink(path)
        except FileNotFoundError:
            continue  # It was taken up in between.

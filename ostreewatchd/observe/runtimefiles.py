# SPDX-License-Identifier: Apache-2.0
"""Which files a container runtime's configuration is made of: those below its drop-in directory, and those that a file
imports.

Sources: crio.conf(5), crio.conf.d(5): each file below the directory is read, whatever its name (measured: an editor's
swap file ends a start); containerd docs/man/containerd-config.toml.5.md (imports)."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ostreewatchd.peers.paths import Root

MAX_FILES = 200
_MAX_DEPTH = 5


class Imported(NamedTuple):
    """What one pattern names."""

    directory: str
    is_pattern: bool
    """Then the directory itself tells when a file in it came or went."""
    paths: tuple[str, ...]


def below(root: Root, directory: str, depth: int = 0) -> Iterator[str]:
    """All files below it, in the order of their paths; bounded."""
    for name in names(root, directory)[:MAX_FILES]:
        path = f"{directory}/{name}"
        try:
            is_directory = root.what(path).is_directory
        except OSError:
            is_directory = False
        if is_directory and depth < _MAX_DEPTH:
            yield from below(root, path, depth + 1)
        elif not is_directory:
            yield path


def imported(root: Root, file: str, patterns: Iterable[str]) -> Iterator[Imported]:
    """By each of the patterns that the file has: a path, from the file's own directory or not, in which the last part
    may be a shell pattern. What is named without one need not be there."""
    for pattern in patterns:
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(file), pattern))
        directory, name = posixpath.split(whole)
        if not any(sign in name for sign in "*?["):
            yield Imported(directory, False, (whole,))
            continue
        found = [f"{directory}/{one}" for one in names(root, directory) if fnmatch.fnmatchcase(one, name)]
        yield Imported(directory, True, tuple(found[:MAX_FILES]))


def names(root: Root, directory: str) -> list[str]:
    """None of a directory that is not there, or cannot be read."""
    try:
        return root.names(directory)
    except OSError:
        return []

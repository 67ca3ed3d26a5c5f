# SPDX-License-Identifier: Apache-2.0
"""The configuration files of a runtime, as they are now: when each became what it is, what it says, and why a start
would end at it.

Sources: crio.conf(5), crio.conf.d(5): each file below the directory is read, whatever its name (measured: an editor's
swap file ends a start); containerd docs/man/containerd-config.toml.5.md (imports)."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

from ostreewatchd.model import ConfigFile
from ostreewatchd.model.runtimes import ConfigOf
from ostreewatchd.observe.contents import since
from ostreewatchd.parse import runtimeconfig, toml
from ostreewatchd.peers.paths import Root

_MAX_FILES = 200
_MAX_DEPTH = 5

Table = Mapping[str, Any]


class Moved(NamedTuple):
    """What was mounted over /etc since the boot: `at` is when it was seen first (seconds since the epoch)."""

    at: Optional[float]


class Read(NamedTuple):
    """A file, and what it says; `table` None: it cannot be read, or is none."""

    file: ConfigFile
    table: Optional[Table] = None


def crio(root: Root, main: str, directory: str, moved: Moved) -> list[Read]:
    """In the order in which they are read; the directory itself tells when a file in it came or went."""
    found = [one for one in (_read(root, main, moved),) if one is not None]
    listed = list(_below(root, directory))
    if listed or _there(root, directory):
        found += [Read(one) for one in (timed(root, directory, "runtime", moved),) if one is not None]
    return found + [one for one in (_read(root, path, moved) for path in listed) if one is not None]


def containerd(root: Root, main: str, moved: Moved) -> list[Read]:
    """The main file and those that it imports, once each."""
    first = _read(root, main, moved)
    if first is None:
        return []
    found = [first]
    for pattern in runtimeconfig.imports(first.table or {}):
        whole = pattern if pattern.startswith("/") else os.path.join(os.path.dirname(main), pattern)
        folder, name = os.path.split(whole)
        if not any(sign in name for sign in "*?["):
            names = [name]
        else:
            names = [one for one in _names(root, folder) if fnmatch.fnmatchcase(one, name)]
            found += [Read(one) for one in (timed(root, folder, "runtime", moved),) if one is not None]
        for one in names[:_MAX_FILES]:
            read = _read(root, f"{folder}/{one}", moved)
            if read is not None and len(found) < _MAX_FILES:
                found.append(read)
    return found


def others(root: Root, of: ConfigOf, paths: Iterable[str], moved: Moved) -> Iterator[ConfigFile]:
    """Files, and directories with the files in them, of which it is no matter what is in them."""
    for path in paths:
        for one in (path, *_below(root, path)):
            found = timed(root, one, of, moved)
            if found is not None:
                yield found


def timed(root: Root, path: str, of: ConfigOf, moved: Moved) -> Optional[ConfigFile]:
    """The file with its time; None: it is not there."""
    try:
        what = root.what(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return ConfigFile(path=path, of=of, changed_at=None, problem=f"cannot be read: {error.strerror}")
    when, elsewhere = since(path, what), moved.at is not None and path.startswith("/etc/")
    if elsewhere and when is not None and moved.at is not None:
        when = max(when, moved.at)
    return ConfigFile(path=path, of=of, changed_at=when, other_tree=elsewhere)


def _read(root: Root, path: str, moved: Moved) -> Optional[Read]:
    file = timed(root, path, "runtime", moved)
    if file is None or file.problem:
        return Read(file) if file is not None else None
    try:
        return Read(file, toml.decode(root.read(path, toml.MAX_BYTES)))
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except toml.TomlError as error:
        problem = str(error)
    return Read(
        ConfigFile(path=path, of="runtime", changed_at=file.changed_at, other_tree=file.other_tree, problem=problem)
    )


def _below(root: Root, directory: str, depth: int = 0) -> Iterator[str]:
    """All files below it, in the order of their paths; bounded."""
    for name in _names(root, directory)[:_MAX_FILES]:
        path = f"{directory}/{name}"
        try:
            is_directory = root.what(path).is_directory
        except OSError:
            is_directory = False
        if is_directory and depth < _MAX_DEPTH:
            yield from _below(root, path, depth + 1)
        elif not is_directory:
            yield path


def _names(root: Root, directory: str) -> list[str]:
    try:
        return root.names(directory)
    except OSError:
        return []


def _there(root: Root, path: str) -> bool:
    try:
        return root.exists(path)
    except OSError:
        return False

# SPDX-License-Identifier: Apache-2.0
"""The configuration files of a runtime, as they are now: when each became what it is, what it says, and why a start
would end at it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Optional

from ostreewatchd.model import ConfigFile
from ostreewatchd.model.runtimes import ConfigOf
from ostreewatchd.observe import runtimefiles
from ostreewatchd.observe.contents import is_yet_to_come, since
from ostreewatchd.parse import cniconfig, toml
from ostreewatchd.peers.paths import Root

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
    listed = list(runtimefiles.below(root, directory))
    if listed or _there(root, directory):
        found += [Read(one) for one in (timed(root, directory, "runtime", moved),) if one is not None]
    return found + [one for one in (_read(root, path, moved) for path in listed) if one is not None]


def containerd(root: Root, main: str, moved: Moved) -> list[Read]:
    """The main file and those that it imports, once each."""
    first = _read(root, main, moved)
    if first is None:
        return []
    found = [first]
    for one in runtimefiles.imported(root, main, cniconfig.imports(first.table or {})):
        if one.is_pattern:
            found += [Read(file) for file in (timed(root, one.directory, "runtime", moved),) if file is not None]
        for path in one.paths:
            read = _read(root, path, moved)
            if read is not None and len(found) < runtimefiles.MAX_FILES:
                found.append(read)
    return found


def others(root: Root, of: ConfigOf, paths: Iterable[str], moved: Moved) -> Iterator[ConfigFile]:
    """Files, and directories with the files in them, of which it is no matter what is in them."""
    for path in paths:
        for one in (path, *runtimefiles.below(root, path)):
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
    if when is not None and is_yet_to_come(when):
        when = None
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


def _there(root: Root, path: str) -> bool:
    try:
        return root.exists(path)
    except OSError:
        return False

# SPDX-License-Identifier: Apache-2.0
"""The CNI configuration directories that the runtimes' configuration on this host names, as PID 1 sees it.

That is what a runtime would read if it was started now, and nearly always what it has read. A file that cannot be read
or is no TOML says nothing: the platform's own directories are watched in any case."""

from __future__ import annotations

import fnmatch
import functools
import posixpath
from collections.abc import Iterator
from typing import NamedTuple, Optional

from ostreewatchd.parse import cniconfig, toml
from ostreewatchd.parse.cniconfig import CniPlaces
from ostreewatchd.peers.paths import Root
from ostreewatchd.platforms import Platform

_MAX_FILES = 64


class _Said(NamedTuple):
    """What matters here of one file."""

    places: CniPlaces
    imports: tuple[str, ...]


def cni_places(root: Root, platform: Platform) -> tuple[CniPlaces, ...]:
    """Of each runtime that has a configuration there, in the platform's order; without those that say nothing."""
    found = (_merged(root, path) for path in platform.runtime_configurations)
    return tuple(dict.fromkeys(one for one in found if one != CniPlaces()))


def _merged(root: Root, path: str) -> CniPlaces:
    """The file with its drop-ins: what is read later holds."""
    found, left = CniPlaces(), _MAX_FILES
    for file in _files(root, path):
        left -= 1
        if left < 0:
            break
        said = _read(root, file)
        if said is not None:
            found = found.then(said.places)
            for more in _imported(root, file, said.imports):
                left -= 1
                imported = _read(root, more) if left >= 0 else None
                found = found.then(imported.places) if imported is not None else found
    return found


def _files(root: Root, path: str) -> Iterator[str]:
    """CRI-O reads each file of the directory beside its own, whatever its name (crio.conf.d(5))."""
    yield path
    if path.endswith("/crio.conf"):
        for name in _names(root, f"{path}.d"):
            yield f"{path}.d/{name}"


def _imported(root: Root, file: str, patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(file), pattern))
        directory, name = posixpath.split(whole)
        if not any(mark in name for mark in "*?["):
            yield whole
        else:
            for one in _names(root, directory):
                if fnmatch.fnmatchcase(one, name):
                    yield f"{directory}/{one}"


def _names(root: Root, directory: str) -> list[str]:
    try:
        return root.names(directory)
    except OSError:
        return []


def _read(root: Root, path: str) -> Optional[_Said]:
    try:
        return _said(root.read(path, toml.MAX_BYTES))
    except OSError:
        return None


@functools.lru_cache(maxsize=32)
def _said(data: bytes) -> Optional[_Said]:
    """Remembered by the text itself: each look asks, and a configuration is hardly ever another one."""
    try:
        document = toml.decode(data)
    except toml.TomlError:
        return None
    return _Said(cniconfig.places(document), cniconfig.imports(document))

# SPDX-License-Identifier: Apache-2.0
"""The CNI configuration directories that the runtimes' configuration on this host names, as PID 1 sees it.

That is what a runtime would read if it was started now, and nearly always what it has read. A file that cannot be read
or is no TOML says nothing: the platform's own directories are watched in any case."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from ostreewatchd.observe import runtimefiles
from ostreewatchd.parse import cniconfig, toml
from ostreewatchd.parse.cniconfig import CniPlaces
from ostreewatchd.peers.paths import Root
from ostreewatchd.platforms import Platform

_MAX_FILES = 64
_CRIO = "/crio.conf"


class _Said(NamedTuple):
    """What matters here of one file."""

    places: CniPlaces
    imports: tuple[str, ...]
    without_pods: bool


_NOTHING = _Said(CniPlaces(), (), False)


class Named(NamedTuple):
    """What one runtime's configuration says."""

    runtime: str
    """The name of its process."""
    places: CniPlaces
    without_pods: bool
    """It is told to leave CRI to others: a containerd that is Docker's."""


def cni_places(root: Root, platform: Platform) -> tuple[Named, ...]:
    """Of each runtime that has a configuration there, in the platform's order; without those that say nothing."""
    found = []
    for path in platform.runtime_configurations:
        said = _merged(root, path)
        if said != _NOTHING:
            runtime = "crio" if path.endswith(_CRIO) else "containerd"
            found.append(Named(runtime, said.places, said.without_pods))
    return tuple(found)


def _merged(root: Root, path: str) -> _Said:
    """The file with its drop-ins: what is read later holds."""
    found = _NOTHING
    for file in islice(_files(root, path), _MAX_FILES):
        said = _read(root, file)
        found = _then(found, said)
        for one in runtimefiles.imported(root, file, said.imports):
            for more in one.paths[:_MAX_FILES]:
                found = _then(found, _read(root, more))
    return found


def _then(first: _Said, later: _Said) -> _Said:
    return _Said(first.places.then(later.places), (), first.without_pods or later.without_pods)


def _files(root: Root, path: str) -> Iterator[str]:
    """CRI-O reads each file below the directory beside its own."""
    yield path
    if path.endswith(_CRIO):
        yield from runtimefiles.below(root, f"{path}.d")


def _read(root: Root, path: str) -> _Said:
    try:
        return _said(root.read(path, toml.MAX_BYTES))
    except OSError:
        return _NOTHING


@functools.lru_cache(maxsize=32)
def _said(data: bytes) -> _Said:
    """Remembered by the text itself: each look asks, and a configuration is hardly ever another one."""
    try:
        document = toml.decode(data)
    except toml.TomlError:
        return _NOTHING
    return _Said(cniconfig.places(document), cniconfig.imports(document), cniconfig.is_without_pods(document))

# SPDX-License-Identifier: Apache-2.0
"""Where a container runtime's configuration says that it looks for CNI configuration; and which network is in a file
that it finds there.

Sources: containerd docs/cri/config.md (versions 1 to 3), docs/man/containerd-config.toml.5.md (imports); crio.conf(5)
and crio.conf.d(5), crio.network; containernetworking/cni SPEC.md and libcni/conf.go (ConfFiles: in the order of their
names, those that end in .conf, .conflist or .json)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Optional

import msgspec

MAX_BYTES = 256 << 10
"""Of one file of CNI configuration."""
SUFFIXES = (".conf", ".conflist", ".json")
_CONTAINERD = ("io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri", "cri")
"""What the CRI plugin is called in versions 3, 2 and 1."""
_MAX = 16


class CniPlaces(NamedTuple):
    """Empty: it does not say."""

    conf_dir: str = ""
    bin_dirs: tuple[str, ...] = ()

    def then(self, later: CniPlaces) -> CniPlaces:
        """With what a file says that is read later."""
        return CniPlaces(later.conf_dir or self.conf_dir, later.bin_dirs or self.bin_dirs)


class NotCni(ValueError):
    """It names no network: a runtime would pass over it. The text holds nothing of the file."""


def places(document: dict[str, Any]) -> CniPlaces:
    """Of one file of containerd's or CRI-O's configuration, by parse.toml."""
    found = CniPlaces()
    for plugin in _CONTAINERD:
        cni = _table(document, "plugins", plugin, "cni")
        found = found.then(CniPlaces(_path(cni.get("conf_dir")), _paths(cni.get("bin_dirs"), cni.get("bin_dir"))))
    network = _table(document, "crio", "network")
    # plugin_dir is what it was called before 1.17.
    dirs = _paths(network.get("plugin_dirs"), network.get("plugin_dir"))
    return found.then(CniPlaces(_path(network.get("network_dir")), dirs))


def imports(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Further files of containerd's, as they stand there: a path, relative to the file's directory or not, in which
    the last part may be a shell pattern."""
    found = document.get("imports")
    return tuple(one for one in found if isinstance(one, str) and one)[:_MAX] if isinstance(found, list) else ()


def is_without_pods(document: dict[str, Any]) -> bool:
    """Whether it turns containerd's CRI plugin off, as Docker's package does."""
    found = document.get("disabled_plugins")
    return isinstance(found, list) and any(one in found for one in _CONTAINERD)


def network(data: bytes) -> str:
    """The name of the network that a file of CNI configuration is of. Raises NotCni."""
    try:
        found = msgspec.json.decode(data) if len(data) <= MAX_BYTES else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise NotCni("it is no JSON: cut off, or no CNI configuration") from None  # The cause may quote it.
    name = found.get("name") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(name, str) or not name:
        raise NotCni("it names no network")
    if not found.get("type") and not found.get("plugins"):
        raise NotCni("it names no plugin")
    return name[:256]


class _Name(msgspec.Struct, rename={"name": "Name"}):
    name: str = ""


class _Loaded(msgspec.Struct, rename={"config": "Config"}):
    config: Optional[_Name] = None


class _Status(msgspec.Struct, rename={"networks": "Networks"}):
    networks: Optional[list[_Loaded]]


def loaded(text: str) -> Optional[tuple[str, ...]]:
    """The names of the networks that containerd has loaded, by the `cniconfig` of its Status; None: it does not say.
    (internal/cri/server/status.go; go-cni types.go, ConfigResult.)"""
    try:
        found = msgspec.json.decode(text, type=_Status).networks
    except (msgspec.DecodeError, RecursionError):
        return None
    # Go writes a list that was never made as null.
    return tuple(one.config.name[:256] for one in (found or ())[:_MAX] if one.config is not None and one.config.name)


def _table(document: dict[str, Any], *names: str) -> dict[str, Any]:
    found: Any = document
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _paths(*values: Any) -> tuple[str, ...]:
    def each() -> Iterator[str]:
        for value in values:
            for one in value if isinstance(value, list) else [value]:
                path = _path(one)
                if path:
                    yield path

    return tuple(dict.fromkeys(each()))[:_MAX]


def _path(value: Any) -> str:
    """Absolute, and no directory of the first level: such a one is no CNI directory, whatever says so."""
    if not isinstance(value, str) or not value.startswith("/") or len(value) > 4096 or "\0" in value:
        return ""
    parts = [part for part in value.split("/") if part not in ("", ".")]
    return "/" + "/".join(parts) if len(parts) >= 2 and ".." not in parts else ""

# SPDX-License-Identifier: Apache-2.0
"""What kubelet was started with and reads at its start alone: its configuration file, the drop-ins, and the files from
which its unit takes variables. A variable that its process has as the file has it is no other setting.

Sources: kubelet (--config, --config-dir); systemd.exec(5), EnvironmentFile=; proc_pid_environ(5)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Optional

import msgspec

from ostreewatchd.model import ConfigFile
from ostreewatchd.observe.configfiles import Moved, others, timed
from ostreewatchd.peers import proc
from ostreewatchd.peers.paths import Root
from ostreewatchd.peers.units import Unit

_MAX_BYTES = 64 << 10


def kubelet_files(
    root: Root, pid: int, flags: Mapping[str, str], loaded: Unit, moved: Moved
) -> tuple[ConfigFile, ...]:
    """Those that are there. Raises Unreadable."""
    paths = [path for path in (flags.get("config", ""), flags.get("config-dir", "")) if path.startswith("/")]
    return (
        *others(root, "kubelet", paths, moved),
        *_environment(root, pid, [path.lstrip("-") for path in loaded.environment_files], moved),
    )


def _environment(root: Root, pid: int, paths: list[str], moved: Moved) -> Iterator[ConfigFile]:
    has: Optional[dict[str, str]] = None
    for path in paths:
        file = timed(root, path, "kubelet", moved)
        if file is None:
            continue
        if has is None:
            data = proc.read(pid, "environ") or b""
            has = dict(_pair(part) for part in data.decode("utf-8", "replace").split("\0") if "=" in part)
        settings = _others(root, path, has)
        yield file if settings is None else msgspec.structs.replace(file, settings=settings)


def _others(root: Root, path: str, has: Mapping[str, str]) -> Optional[tuple[str, ...]]:
    """Names of the variables that the process has otherwise, never a value."""
    try:
        text = root.read(path, _MAX_BYTES).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines()]
        said = [_pair(line) for line in lines if "=" in line and line[0] not in "#;"]
        return tuple(name for name, value in said if has.get(name) != " ".join(shlex.split(value, posix=True)))
    except (OSError, ValueError):
        return None


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip(), value

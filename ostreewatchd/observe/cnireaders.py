# SPDX-License-Identifier: Apache-2.0
"""The CNI directory of each runtime: whether its watch sits on it, and which network it names first.

Sources: containerd internal/cri/server/cni_conf_syncer.go and ocicni (a watch of the directory, made at the start, on
what the path led to then); libcni conf.go (the files in the order of their names)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Optional

from ostreewatchd.model import CniReader, Daemon
from ostreewatchd.model.cni import CniWatch
from ostreewatchd.observe.cniplaces import Named
from ostreewatchd.observe.host import Host, conf_names, sight
from ostreewatchd.observe.roots import Roots
from ostreewatchd.parse import cniconfig
from ostreewatchd.parse.mountinfo import MountTable
from ostreewatchd.peers import proc
from ostreewatchd.peers.paths import Root
from ostreewatchd.peers.watches import Watches
from ostreewatchd.platforms import Platform

_MAX_RUNTIMES = 4


def cni_readers(
    host: Host,
    platform: Platform,
    named: Sequence[Named],
    daemons: Iterable[Daemon],
    roots: Roots,
    watches: Watches,
) -> tuple[CniReader, ...]:
    """Of each runtime, less those whose configuration says that they make no pods."""
    found = []
    for daemon in [one for one in daemons if one.kind == "runtime"][:_MAX_RUNTIMES]:
        mine = next((one for one in named if one.runtime == daemon.name), None)
        if mine is not None and mine.without_pods:
            continue
        directory = (mine.places.conf_dir if mine is not None else "") or platform.cni_directories[0]
        found.append(_reader(host, daemon, directory, roots, watches))
    return tuple(found)


def _reader(host: Host, daemon: Daemon, directory: str, roots: Roots, watches: Watches) -> CniReader:
    def reader(**more: object) -> CniReader:
        return CniReader(
            runtime=daemon.name,
            pid=daemon.pid,
            unit=daemon.unit,
            mount_namespace=daemon.mount_namespace,
            directory=directory,
            **more,  # type: ignore[arg-type]
        )

    try:
        if daemon.mount_namespace == host.namespace:
            return reader(**_seen(daemon.pid, host.root, host.table, directory, watches))
        table = roots.table(proc.read(daemon.pid, "mountinfo") or b"")
        root = roots.open(daemon.pid, table)
    except proc.Unreadable as error:
        return reader(problem=error.what)
    if root is None:
        return reader(problem="it has ended")
    with root:
        return reader(**_seen(daemon.pid, root, table, directory, watches))


def _seen(pid: int, root: Root, table: MountTable, directory: str, watches: Watches) -> dict[str, object]:
    seen = sight(root, table, directory)
    if seen.identity is None:
        return {"problem": seen.problem}
    watch, problem = _watch(pid, root, directory, watches)
    file, network, trouble = _first(root, directory)
    return {
        "identity": seen.identity, "watch": watch, "file": file, "network": network, "problem": problem or trouble,
    }  # fmt: skip


def _watch(pid: int, root: Root, directory: str, watches: Watches) -> tuple[CniWatch, str]:
    try:
        has = watches.has(pid, watches.mark(root, directory))
    except OSError as error:
        return "unknown", f"what is watched cannot be told: {error.strerror}"
    except proc.Unreadable as error:
        return "unknown", error.what
    return ("none" if has is None else "there" if has else "elsewhere"), ""


def _first(root: Root, directory: str) -> tuple[str, str, str]:
    """The file, its network, and why that is not known."""
    name: Optional[str] = None
    try:
        name = next(iter(conf_names(root.names(directory))), None)
        if name is None:
            return "", "", ""
        return name, cniconfig.network(root.read(f"{directory}/{name}", cniconfig.MAX_BYTES)), ""
    except cniconfig.NotCni as error:
        return name or "", "", f"{name}: {error}"
    except OSError as error:
        return name or "", "", f"{name or directory}: {error.strerror}"

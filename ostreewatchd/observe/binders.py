# SPDX-License-Identifier: Apache-2.0
"""Who would make a container's binds if it were started again now: its shim, which stays with the pod; a new conmon,
which the runtime starts; kubelet, for a subPath.

Source: containerd's runtime v2 (a shim serves all containers of its sandbox); conmon(8) (one a container); Kubernetes
pkg/volume/util/subpath (kubelet binds the source, and anew at each start if it is another file by then)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ostreewatchd.model import BinderKind, Container, Daemon, is_of_one_container
from ostreewatchd.peers import proc


def made_by(container: Container, subpaths: frozenset[str], daemons: Sequence[Daemon]) -> Container:
    """The container with what is known of its makers. Nothing changes where all live in one mount namespace."""
    own = container.binder.mount_namespace
    of_runtimes = [one for one in daemons if one.kind == "runtime"]
    runtimes = [one.mount_namespace for one in of_runtimes]
    kubelets = [one.mount_namespace for one in daemons if one.kind == "kubelet"]
    if all(namespace == own for namespace in (*runtimes, *(kubelets if subpaths else ()))):
        return container
    kind = _kind(container.binder.pid)
    runtime = runtimes[0] if len(runtimes) == 1 and runtimes[0] != own else None
    next_maker = runtime if is_of_one_container(kind, of_runtimes) else None
    of_subpaths = kubelets[0] if len(kubelets) == 1 and kubelets[0] != own else next_maker
    binds = tuple(
        msgspec.structs.replace(bind, made_in=of_subpaths if bind.path in subpaths else next_maker)
        for bind in container.binds
    )
    binder = msgspec.structs.replace(container.binder, kind=kind)
    return msgspec.structs.replace(container, binder=binder, binds=binds)


def _kind(pid: int) -> BinderKind:
    try:
        stat = proc.stat(pid)
    except proc.Unreadable:
        return ""
    if stat is None:
        return ""
    return "conmon" if stat.command.startswith("conmon") else "shim"

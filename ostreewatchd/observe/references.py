# SPDX-License-Identifier: Apache-2.0
"""What a container would get if it were restarted now: each host path as the process sees it that would make
the bind, and as PID 1 sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ostreewatchd.model import Container, Daemon, Problem, Reference, Sight
from ostreewatchd.observe.host import Host, sight
from ostreewatchd.observe.roots import Roots
from ostreewatchd.peers import proc

_TREES = ("/usr", "/etc")


def references(
    host: Host,
    containers: Iterable[Container],
    daemons: Iterable[Daemon],
    cni_directories: Sequence[str],
    roots: Roots,
) -> tuple[list[Reference], list[Problem]]:
    """One reference per host path and mount namespace that makes binds, PID 1's always among them. What a daemon in a
    namespace of its own would give to containers that are yet to come, its view of the trees tells."""
    wanted: dict[int, set[str]] = {host.namespace: set(cni_directories)}
    binders: dict[int, int] = {}
    for daemon in daemons:
        if daemon.mount_namespace != host.namespace:
            binders.setdefault(daemon.mount_namespace, daemon.pid)
            for path in (*_TREES, *cni_directories):
                wanted.setdefault(daemon.mount_namespace, set()).add(path)
                wanted[host.namespace].add(path)
    for container in containers:
        namespace = container.binder.mount_namespace
        binders.setdefault(namespace, container.binder.pid)
        for bind in container.binds:
            wanted.setdefault(container.maker(bind), set()).add(bind.host_path)
            wanted[host.namespace].add(bind.host_path)
    found, problems = [], []
    for namespace, paths in wanted.items():
        if namespace == host.namespace:
            seen = {path: sight(host.root, host.table, path, list_names=path in cni_directories) for path in paths}
        else:
            seen, trouble = _elsewhere(binders[namespace], paths, roots)
            problems += trouble
        for path in sorted(paths):
            found.append(Reference(host_path=path, mount_namespace=namespace, sight=seen[path]))
    return found, problems


def _elsewhere(pid: int, paths: Iterable[str], roots: Roots) -> tuple[dict[str, Sight], list[Problem]]:
    try:
        data = proc.read(pid, "mountinfo") or b""
        table = roots.table(data)
        root = roots.open(pid, table) if data else None
    except proc.Unreadable as error:
        why = Sight(problem=error.what)
        return dict.fromkeys(paths, why), [Problem(where=f"process {pid}", what=error.what)]
    if root is None:
        return {path: Sight(problem=f"process {pid} has ended") for path in paths}, []
    with root:
        return {path: sight(root, table, path) for path in paths}, []

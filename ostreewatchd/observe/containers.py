# SPDX-License-Identifier: Apache-2.0
"""The running containers that hold a piece of the host's tree, found without credentials and without asking
the runtime: mount namespaces, cgroups, runtime bundles, and the names below /var/log/containers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from ostreewatchd.model import Bind, Binder, Container, Pod, Problem
from ostreewatchd.observe.host import Host, sight
from ostreewatchd.observe.processes import ContainerProcess, Processes
from ostreewatchd.parse import bundle, podlogs
from ostreewatchd.parse.bundle import Bundle
from ostreewatchd.parse.mountinfo import (
    ContainerFilter,
    Mount,
    MountTable,
    covers,
    deployment_of,
    host_path_of,
    parse,
)
from ostreewatchd.peers import proc
from ostreewatchd.platforms import Platform

_LOGS = "/var/log/containers"
_WATCHED_TREES = ("/usr", "/etc")
_MAX_BINDS = 200


class _Names(NamedTuple):
    pod: Pod
    container: str
    attempt: Optional[int]
    sandbox_id: str


class ContainerLooker:
    """Finds containers; kept by the watcher from look to look."""

    def __init__(self, *, remember: bool) -> None:
        self._processes = Processes(remember=remember)
        self._remember = remember
        self._settled: dict[ContainerProcess, Optional[Container]] = {}
        """Containers none of whose mounts can change behind their back. Keyed by the whole process: a mount
        namespace's number and a pid are reused, a container's id is not."""

    def close(self) -> None:
        self._processes.close()

    def look(
        self, host: Host, platform: Platform, cni_directories: Sequence[str]
    ) -> tuple[int, list[Container], list[Problem]]:
        """How many containers run, those that hold a piece of the host's tree, and what could not be read."""
        processes, problems = self._processes.look(host.namespace)
        looker = _Look(host, platform, (*_WATCHED_TREES, *cni_directories), problems)
        containers = []
        settled: dict[ContainerProcess, Optional[Container]] = {}
        for process in processes:
            if process in self._settled:
                container, final = self._settled[process], True
            else:
                container, final = looker.container(process)
            if final and self._remember:
                settled[process] = container
            if container is not None:
                containers.append(container)
        self._settled = settled
        containers.sort(key=lambda one: (one.pod.namespace, one.pod.name, one.name, one.id))
        return len(processes), containers, problems


class _Look:
    """One look's shared parts: filter, log names, where to put problems."""

    def __init__(self, host: Host, platform: Platform, watched: Sequence[str], problems: list[Problem]) -> None:
        self._host = host
        self._platform = platform
        self._watched = watched
        self._problems = problems
        self._filter = ContainerFilter(host.table)
        self._links: Optional[dict[str, str]] = None

    def container(self, process: ContainerProcess) -> tuple[Optional[Container], bool]:
        """The container, None if it holds nothing of the host's tree; and whether that is final: a container
        with mounts that receive the host's later mounts is looked at anew each time."""
        try:
            return self._container(process)
        except proc.Unreadable as error:
            self._problems.append(Problem(where=f"container {process.container_id[:12]}", what=error.what))
            return None, False

    def _container(self, process: ContainerProcess) -> tuple[Optional[Container], bool]:
        data = proc.read(process.pid, "mountinfo")
        if not data:
            return None, False
        mounts = list(self._filter.lines(data))
        if not mounts:
            return None, b" master:" not in data
        stat = proc.stat(process.pid)
        root = proc.root(process.pid)
        if stat is None or root is None:
            return None, False
        with root:
            if stat.command.startswith("runc"):
                return None, False  # Being made: its mounts are still the host's.
            binder_namespace = proc.mount_namespace(stat.parent)
            if binder_namespace is None:
                return None, False
            spec = self._bundle(process.container_id)
            if spec is not None and spec.is_sandbox:
                return None, True
            table = MountTable(parse(data))
            binds = []
            for host_path, path, via, mount in self._places(mounts, spec)[:_MAX_BINDS]:
                binds.append(
                    Bind(
                        host_path=host_path,
                        path=path,
                        via=via,
                        writable=mount.writable,
                        propagated=mount.propagated,
                        sight=sight(root, table, path, list_names=host_path in self._watched[2:], links=False),
                    )
                )
        names = self._names(process, spec)
        started = stat.start_ticks / proc.TICKS
        container = Container(
            id=process.container_id,
            name=names.container,
            pod=names.pod,
            attempt=names.attempt,
            sandbox_id=names.sandbox_id,
            pid=process.pid,
            started_boottime=started,
            started_at=proc.boot_epoch() + started,
            mount_namespace=process.mount_namespace,
            binder=Binder(pid=stat.parent, mount_namespace=binder_namespace),
            binds=tuple(sorted(binds, key=lambda bind: (bind.path, bind.host_path))),
        )
        lists_names = any(bind.host_path in self._watched[2:] for bind in container.binds)
        return container, not lists_names and b" master:" not in data

    def _places(self, mounts: Iterable[Mount], spec: Optional[Bundle]) -> list[tuple[str, str, str, Mount]]:
        """`(host path, path in the container, via, mount)` of each bind, and of each watched directory that is
        seen by way of an ancestor's bind."""
        places: dict[str, tuple[str, str, str, Mount]] = {}
        for mount in mounts:
            host_path = self._host_path(mount, spec)
            if host_path:
                places[mount.point] = (host_path, mount.point, "", mount)
        for host_path, path, _, mount in list(places.values()):
            for watched in self._watched:
                if watched != host_path and covers(host_path, watched):
                    below = path.rstrip("/") + (watched if host_path == "/" else watched[len(host_path) :])
                    places.setdefault(below, (watched, below, host_path, mount))
        return list(places.values())

    def _host_path(self, mount: Mount, spec: Optional[Bundle]) -> str:
        by_root = host_path_of(mount, self._host.table)
        best: Optional[bundle.BundleMount] = None
        for one in spec.mounts if spec else ():
            if covers(one.destination, mount.point) and (best is None or len(one.destination) > len(best.destination)):
                best = one
        if best is None:
            return by_root
        asked = (best.source.rstrip("/") + mount.point[len(best.destination.rstrip("/")) :]) or "/"
        # kubelet's own bind stands between (a subPath): what it is of, the mount's root tells.
        if deployment_of(mount.root)[0] and covers("/var/lib/kubelet", asked):
            return by_root
        return asked

    def _bundle(self, container_id: str) -> Optional[Bundle]:
        for pattern in self._platform.bundles:
            path = pattern.format(id=container_id)
            try:
                return bundle.parse(self._host.root.read(path, bundle.MAX_BYTES))
            except FileNotFoundError:
                continue
            except (OSError, bundle.BundleError) as error:
                self._problems.append(Problem(where=path, what=str(error)))
        return None

    def _names(self, process: ContainerProcess, spec: Optional[Bundle]) -> _Names:
        """Whose container it is: from the bundle's annotations and the log link, which must agree where both
        speak; the attempt is known from the link alone."""
        link = self._log_link(process.container_id)
        name = podlogs.parse_link(link) if link else None
        target: Optional[podlogs.LogTarget] = None
        if name is not None:
            try:
                target = podlogs.parse_target(self._host.root.readlink(f"{_LOGS}/{link}"))
            except OSError:
                target = None
        if spec is not None and spec.pod:
            pod = Pod(namespace=spec.namespace, name=spec.pod, uid=spec.pod_uid)
            attempt = target.attempt if target and target.uid == spec.pod_uid else None
            return _Names(pod, spec.container, attempt, spec.sandbox_id)
        if target is not None:
            pod = Pod(namespace=target.namespace, name=target.pod, uid=target.uid)
            return _Names(pod, target.container, target.attempt, "")
        where = f"container {process.container_id[:12]}"
        self._problems.append(Problem(where=where, what="neither its bundle nor a log link says whose it is"))
        return _Names(Pod(namespace="", name="", uid=process.cgroup_pod_uid), "", None, "")

    def _log_link(self, container_id: str) -> str:
        if self._links is None:
            try:
                names = self._host.root.names(_LOGS)
            except OSError:
                names = []
            # `…-<64 hex>.log`: the id stands at a fixed place from the end.
            self._links = {name[-68:-4]: name for name in names if name.endswith(".log")}
        return self._links.get(container_id, "")

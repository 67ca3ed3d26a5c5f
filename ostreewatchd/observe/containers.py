# SPDX-License-Identifier: Apache-2.0
"""The running containers that hold a piece of the host's tree, found without credentials and without asking
the runtime: mount namespaces, cgroups, runtime bundles, and the names below /var/log/containers."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from ostreewatchd.model import Bind, Binder, Container, Pod, Problem
from ostreewatchd.observe.host import Host, sight
from ostreewatchd.observe.processes import ContainerProcess, Processes
from ostreewatchd.parse import bundle, podlogs
from ostreewatchd.parse.bundle import Bundle
from ostreewatchd.parse.containermounts import (
    ContainerFilter,
    host_path_of,
    inside_deployment,
    receives_mounts,
    sysroots,
)
from ostreewatchd.parse.mountinfo import (
    ASIDE,
    Mount,
    Mounts,
    MountTable,
    covers,
    unsafe_mount,
)
from ostreewatchd.peers import proc
from ostreewatchd.peers.paths import Root, What
from ostreewatchd.platforms import Platform

_LOGS = "/var/log/containers"
_WATCHED_TREES = ("/usr", "/etc")
_SYSROOT = ("/sysroot/", "/ostree/")
"""Where all deployments are side by side: what a container sees of that is no place that anybody works in."""
_IS_BEING_MADE = 10.0
"""Seconds since its start in which a process that is named as runc names its own is taken for that."""
_MAX_BINDS = 200
_MAX_MOUNTS = 5000
"""Of a container, that may show the host's tree. A container with the host's `/` has all of the host's."""


class _Names(NamedTuple):
    pod: Pod
    container: str
    attempt: Optional[int]
    sandbox_id: str


class _Place(NamedTuple):
    """A piece of the host's tree in a container. `via` as in Bind."""

    host_path: str
    path: str
    via: str
    mount: Mount


class _Known(NamedTuple):
    """What the look before found out about a process."""

    container: Optional[Container]
    """None: it holds nothing of the host's tree."""
    receives: bool
    """Whether the host's later mounts can reach it."""
    moving: tuple[tuple[str, What], ...]
    """What was at the paths that can become something else without a mount: those below a bind, and directories
    whose names matter."""


class ContainerLooker:
    """Finds containers; kept by the watcher from look to look."""

    def __init__(self, *, remember: bool) -> None:
        self._processes = Processes(remember=remember)
        self._remember = remember
        self._known: dict[ContainerProcess, _Known] = {}
        """Keyed by the whole process: a mount namespace's number and a pid are reused, a container's id is not."""
        self._leading: list[bytes] = []
        """The host's mounts that can lead to a deployment, at the look before."""

    def forget(self) -> None:
        """Look at everything anew the next time."""
        self._processes.forget()
        self._known = {}

    def close(self) -> None:
        self._processes.close()

    def look(
        self, host: Host, platform: Platform, cni_directories: Sequence[str]
    ) -> tuple[int, list[Container], list[Problem]]:
        """How many containers run, those that hold a piece of the host's tree, and what could not be read."""
        # A look makes thousands of small objects and no cycles.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._look(host, platform, cni_directories)
        finally:
            if collecting:
                gc.enable()

    def _look(
        self, host: Host, platform: Platform, cni_directories: Sequence[str]
    ) -> tuple[int, list[Container], list[Problem]]:
        processes, problems = self._processes.look(host.namespace)
        looker = _Look(host, platform, (*_WATCHED_TREES, *cni_directories), problems, remember=self._remember)
        no_new_mounts = host.table.mounts.leading == self._leading
        containers = []
        known: dict[ContainerProcess, _Known] = {}
        for process in processes:
            one = self._known.get(process)
            if one is None or (one.receives and not no_new_mounts) or not _is_unmoved(process, one):
                one = looker.container(process)
            if one is None:
                continue
            if self._remember:
                known[process] = one
            if one.container is not None:
                containers.append(one.container)
        self._known, self._leading = known, host.table.mounts.leading
        containers.sort(key=lambda one: (one.pod.namespace, one.pod.name, one.name, one.id))
        return len(processes), containers, problems


def _is_unmoved(process: ContainerProcess, known: _Known) -> bool:
    if not known.moving:
        return True
    try:
        root = proc.root(process.pid)
        if root is None:
            return False
        with root:
            return all(root.what(path, links=False) == before for path, before in known.moving)
    except (OSError, proc.Unreadable):
        return False


class _Look:
    """One look's shared parts: filter, log names, where to put problems."""

    def __init__(
        self, host: Host, platform: Platform, watched: Sequence[str], problems: list[Problem], *, remember: bool
    ) -> None:
        self._host = host
        self._platform = platform
        self._watched = watched
        self._problems = problems
        self._remember = remember
        # Other containers' root filesystems, which a container with the host's `/` has all of.
        self._filter = ContainerFilter(host.table, unrelated=self._unrelated_overlays())
        self._sysroots = sysroots(host.table)
        self._links: Optional[dict[str, str]] = None

    def _unrelated_overlays(self) -> frozenset[bytes]:
        related = {mount.device.encode() for mount in map(self._host.table.visible, self._watched) if mount}
        return self._host.table.mounts.overlays_aside - related

    def container(self, process: ContainerProcess) -> Optional[_Known]:
        """What is known of the process now; None if nothing that holds until the next look."""
        try:
            return self._container(process)
        except proc.Unreadable as error:
            self._problems.append(Problem(where=f"container {process.container_id[:12]}", what=error.what))
            return None

    def _container(self, process: ContainerProcess) -> Optional[_Known]:
        data = proc.read(process.pid, "mountinfo")
        if not data:
            return None
        mounts = list(itertools.islice(self._filter.lines(data), _MAX_MOUNTS + 1))
        if len(mounts) > _MAX_MOUNTS:
            raise proc.Unreadable(f"more than {_MAX_MOUNTS} mounts of the host's tree: not judged")
        receives = self._remember and receives_mounts(data)
        if not mounts:
            return _Known(None, receives, ())
        stat = proc.stat(process.pid)
        root = proc.root(process.pid)
        if stat is None or root is None:
            return None
        with root:
            if stat.command.startswith("runc:[") and proc.boottime() - stat.start_ticks / proc.TICKS < _IS_BEING_MADE:
                return None  # Its mounts are still the host's. Not for long: anybody may take that name.
            binder_namespace = proc.mount_namespace(stat.parent)
            if binder_namespace is None:
                return None
            if binder_namespace == process.mount_namespace:
                # Its parent is in the container too: compared with that it would always be fresh.
                where = f"container {process.container_id[:12]}"
                self._problems.append(Problem(where=where, what="its first process was not found"))
                return None
            spec = self._bundle(process.container_id)
            if spec is not None and spec.is_sandbox:
                return _Known(None, False, ())
            places = self._places(process, mounts, spec)
            table = MountTable(Mounts(data, [place.path for place in places]))
            # Before the rest: what changes meanwhile differs at the next look.
            moving = self._moving(root, table, places) if self._remember else ()
            binds = [
                Bind(
                    host_path=host_path,
                    path=path,
                    via=via,
                    writable=mount.writable,
                    propagated=mount.propagated,
                    sight=sight(root, table, path, list_names=host_path in self._watched[2:], links=False),
                )
                for host_path, path, via, mount in places
            ]
        # All of the above asked for the pid: was it one and the same process?
        if proc.mount_namespace(process.pid) != process.mount_namespace:
            return None
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
        return _Known(container, receives, moving)

    def _moving(self, root: Root, table: MountTable, places: Iterable[_Place]) -> tuple[tuple[str, What], ...]:
        found = []
        for place in places:
            if (place.via or place.host_path in self._watched[2:]) and unsafe_mount(table, place.path) is None:
                try:
                    found.append((place.path, root.what(place.path, links=False)))
                except OSError:
                    continue  # What is not there is looked at as all else when it comes by a mount.
        return tuple(found)

    def _places(self, process: ContainerProcess, mounts: Iterable[Mount], spec: Optional[Bundle]) -> list[_Place]:
        """Each bind, and each watched directory that is seen by way of an ancestor's bind."""
        places: dict[str, _Place] = {}
        for mount in mounts:
            host_path = self._host_path(mount, spec)
            if host_path and not host_path.startswith(_SYSROOT) and not self._is_unrelated(mount, host_path):
                places[mount.point] = _Place(host_path, mount.point, "", mount)
        for host_path, path, _, mount in list(places.values()):
            for watched in self._watched:
                if watched != host_path and covers(host_path, watched):
                    below = path.rstrip("/") + (watched if host_path == "/" else watched[len(host_path) :])
                    places.setdefault(below, _Place(watched, below, host_path, mount))
        if len(places) <= _MAX_BINDS:
            return list(places.values())
        where = f"container {process.container_id[:12]}"
        self._problems.append(Problem(where=where, what=f"{len(places)} binds, of which {_MAX_BINDS} are looked at"))
        return sorted(places.values(), key=self._matters_less)[:_MAX_BINDS]

    def _is_related(self, host_path: str) -> bool:
        return any(covers(host_path, watched) or covers(watched, host_path) for watched in self._watched)

    def _is_unrelated(self, mount: Mount, host_path: str) -> bool:
        """An overlay that the runtime made, perhaps of a container that has ended since: no deployment."""
        below = any(covers(place, host_path) for place in ASIDE)
        return below and mount.fstype == "overlay" and not self._is_related(host_path)

    def _matters_less(self, place: _Place) -> tuple[bool, str]:
        return (not self._is_related(place.host_path), place.path)

    def _host_path(self, mount: Mount, spec: Optional[Bundle]) -> str:
        by_root = host_path_of(mount, self._host.table, self._sysroots)
        best: Optional[bundle.BundleMount] = None
        for one in spec.mounts if spec else ():
            if covers(one.destination, mount.point) and (best is None or len(one.destination) > len(best.destination)):
                best = one
        if best is None:
            return by_root
        asked = (best.source.rstrip("/") + mount.point[len(best.destination.rstrip("/")) :]) or "/"
        # kubelet's own bind stands between (a subPath): what it is of, the mount's root tells.
        if covers("/var/lib/kubelet", asked):
            return inside_deployment(mount, self._sysroots) or asked
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
        """Whose container it is: by the bundle's annotations, else by the log link. The attempt is known from the
        link alone, and only where that is of the same pod."""
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

# SPDX-License-Identifier: Apache-2.0
"""The running containers that hold a piece of the host's tree, found without credentials and without asking
the runtime: mount namespaces, cgroups, runtime bundles, and the names below /var/log/containers."""

from __future__ import annotations

import gc
from collections.abc import Hashable, Iterable, Sequence, Set
from typing import NamedTuple, Optional

import msgspec

from ostreewatchd.model import Bind, Binder, Container, Daemon, Problem, Sight, VmSandbox
from ostreewatchd.observe.binders import made_by
from ostreewatchd.observe.credentials import Memory
from ostreewatchd.observe.daemons import daemons, helper, vm_sandboxes
from ostreewatchd.observe.host import Host, only_on, sight
from ostreewatchd.observe.owners import Owners
from ostreewatchd.observe.places import Place, Places
from ostreewatchd.observe.processes import ContainerProcess, Processes
from ostreewatchd.observe.roots import Roots
from ostreewatchd.parse.containermounts import receives_mounts
from ostreewatchd.parse.mountinfo import MountTable
from ostreewatchd.peers import proc
from ostreewatchd.peers.aside import Aside
from ostreewatchd.peers.paths import Root, What
from ostreewatchd.peers.watches import Watches
from ostreewatchd.platforms import MovingLink, Platform

_WATCHED_TREES = ("/usr", "/etc")
_SMALL = 64 << 10
_IS_BEING_MADE = 10.0
"""Seconds since its start in which a process that is named as runc names its own is taken for that."""


_DOUBT = "which of the processes in its cgroup is its first one cannot be told"


class _Known(NamedTuple):
    """What the look before found out about a process."""

    container: Optional[Container]
    """None: it holds nothing of the host's tree."""
    receives: bool
    """Whether the host's later mounts can reach it, or say something about what it holds."""
    moving: tuple[tuple[str, Optional[What]], ...] = ()
    """What was at its paths, or that nothing was: they can become something else without a mount."""
    subpaths: frozenset[str] = frozenset()
    """Where in the container kubelet's own binds are."""
    table: Optional[int] = None
    """Stands for its mountinfo, where that is small: a container may mount in its own namespace. Of a large one (it
    has the host's `/`) only `moving` tells; what it mounts at other places is seen when all is looked at anew. Of one
    that holds nothing it matters only where that may go into any mount namespace."""
    devices: frozenset[int] = frozenset()
    """On the ways to its paths, where `table` is None: another one may be of a filesystem that does not answer."""
    again: bool = False
    """What is at its paths only a child can tell, or a directory whose names are told is an overlay's, where what
    changes behind it changes no time (Documentation/filesystems/overlayfs.rst): nothing holds until the next look."""


class Found(NamedTuple):
    """What a look found."""

    container_count: int
    """All running containers."""
    containers: list[Container]
    """Those that hold a piece of the host's tree."""
    daemons: list[Daemon]
    vm_sandboxes: list[VmSandbox]
    problems: list[Problem]
    roots: Roots
    """For what else is asked of processes at this look."""


class ContainerLooker:
    """Finds containers; kept by the watcher from look to look."""

    def __init__(self, *, remember: bool, aside: Optional[Aside] = None) -> None:
        """`aside`: kept by who makes one of these for each look."""
        self._aside = aside if aside is not None else Aside()
        self._processes = Processes(remember=remember, helper=helper)
        self._remember = remember
        self._known: dict[ContainerProcess, _Known] = {}
        """Keyed by the whole process: a mount namespace's number and a pid are reused, a container's id is not."""
        self._leading: list[bytes] = []
        """The host's mounts that can lead to a deployment, at the look before."""
        self._vm_sandboxes: dict[str, VmSandbox] = {}
        self.credentials = Memory(remember=remember)
        self.watches = Watches()
        self._shape: Hashable = None
        """What was looked for in containers at the look before."""

    def forget(self) -> None:
        """Look at everything anew the next time."""
        self._processes.forget()
        self._known = {}

    def close(self) -> None:
        self._processes.close()
        self.watches.close()

    def look(self, host: Host, platform: Platform, cni_directories: Sequence[str]) -> Found:
        """All that runs now. What cannot be read is among the problems."""
        # A look makes thousands of small objects and no cycles.
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._look(host, platform, cni_directories)
        finally:
            if collecting:
                gc.enable()

    def _look(self, host: Host, platform: Platform, cni_directories: Sequence[str]) -> Found:
        self._aside.begin()
        problems: list[Problem] = []
        owners = Owners(host, platform, problems)
        holders = {one.container_id for one, known in self._known.items() if known.container or known.receives}
        processes, troubles = self._processes.look(host, owners.first_process, holders)
        problems += troubles
        standing = daemons(self._processes.helpers, host, platform)
        roots = Roots(host, standing, self._aside)
        watched = (*_WATCHED_TREES, *cni_directories)
        mighty = self._processes.mighty
        looker = _Look(host, owners, roots, self._remember, mighty, watched, platform.links, problems)
        machines = vm_sandboxes(self._processes.helpers, host, owners, self._vm_sandboxes)
        no_new_mounts = host.table.mounts.leading == self._leading
        if looker.shape != self._shape:
            self._known, self._shape = {}, looker.shape
        containers = []
        known: dict[ContainerProcess, _Known] = {}
        for process in processes:
            if process.container_id in machines:
                continue  # What a virtual machine needs on the host (virtiofsd) is no container.
            one = self._known.get(process)
            before = len(problems)
            if one is None or (one.receives and not no_new_mounts) or not _is_unmoved(process, one):
                one = looker.container(process)
            if one is None:
                continue
            # Else it is to be said again, or has gone by then.
            if self._remember and not process.doubt and not one.again and len(problems) == before:
                known[process] = one
            if one.container is not None:
                containers.append(made_by(one.container, one.subpaths, standing))
        self._known, self._leading, self._vm_sandboxes = known, host.table.mounts.leading, machines
        containers.sort(key=lambda one: (one.pod.namespace, one.pod.name, one.name, one.id))
        return Found(len(processes), containers, standing, list(machines.values()), problems, roots)


def _is_unmoved(process: ContainerProcess, known: _Known) -> bool:
    try:
        if known.table is not None and hash(proc.read(process.pid, "mountinfo")) != known.table:
            return False
        if known.container is None or not known.moving:
            return True
        root = proc.root(process.pid)
        if root is None:
            return False
        with root:
            if known.table is None:
                root.step = only_on(known.devices)
            return all(_what(root, path) == before for path, before in known.moving)
    except (OSError, proc.Unreadable):
        return False


class _Look:
    """One look's shared parts: what is looked for, whose it is, where to put problems."""

    def __init__(
        self,
        host: Host,
        owners: Owners,
        roots: Roots,
        remember: bool,
        mighty: Set[str],
        watched: Sequence[str],
        links: Sequence[MovingLink],
        problems: list[Problem],
    ) -> None:
        self._roots = roots
        self._watched = watched
        self._problems = problems
        self._remember = remember
        self._mighty = mighty
        self._places = Places(host, watched, problems, links)
        self._owners = owners
        self.shape = (tuple(watched), self._places.shape)

    def _instead(self, process: ContainerProcess, pid: int) -> Optional[_Known]:
        """By the process that the runtime started, where somebody else's is in the container's cgroup and older."""
        what = f"process {process.pid} is in its cgroup, and its first one is {pid}"
        self._problems.append(Problem(where=f"container {process.container_id[:12]}", what=what))
        namespace = proc.mount_namespace(pid)
        return None if namespace is None else self._container(process._replace(pid=pid, mount_namespace=namespace))

    def container(self, process: ContainerProcess) -> Optional[_Known]:
        """What is known of the process now; None if nothing that holds until the next look."""
        where = f"container {process.container_id[:12]}"
        try:
            known = self._container(process)
        except proc.Unreadable as error:
            self._problems.append(Problem(where=where, what=error.what))
            return None
        if process.doubt and known is not None and known.container is None:
            self._problems.append(Problem(where=where, what=_DOUBT))
        return known

    def _container(self, process: ContainerProcess) -> Optional[_Known]:
        where = f"container {process.container_id[:12]}"
        data = proc.read(process.pid, "mountinfo")
        if not data:
            return None
        mounts = self._places.mounts(data)
        receives = self._remember and receives_mounts(data)
        if not mounts:
            # The number of a mount namespace that it left may be that of the one that it made next.
            watch = process.container_id in self._mighty and len(data) <= _SMALL
            return _Known(None, receives, table=hash(data) if watch else None)
        stat = proc.stat(process.pid)
        if stat is None:
            return None
        if stat.command.startswith("runc:[") and proc.boottime() - stat.start_ticks / proc.TICKS < _IS_BEING_MADE:
            return None  # Its mounts are still the host's. Not for long: anybody may take that name.
        binder_namespace = proc.mount_namespace(stat.parent)
        if binder_namespace is None:
            return None
        if binder_namespace == process.mount_namespace:
            # Its parent is in the container too: compared with that it would always be fresh.
            self._problems.append(Problem(where=where, what="its first process was not found"))
            return None
        spec = self._owners.bundle(process.container_id)
        if spec is not None and spec.is_sandbox:
            return _Known(None, False)
        noted = self._owners.first_process(process.container_id) if spec is not None else None
        if noted is not None and noted != process.pid:
            if self._owners.is_in(noted, process.container_id):
                return self._instead(process, noted)
            process = process._replace(doubt=True)
            what = f"its runtime noted process {noted} as its first one, which is not in its cgroup"
            self._problems.append(Problem(where=where, what=what))
        places = self._places.find(mounts, spec, where)
        table = self._roots.table(data, [place.path for place in places])
        places = self._places.seen(places, table)
        root = self._roots.open(process.pid, table)
        if root is None:
            return None
        with root:
            # Before the rest: what changes meanwhile differs at the next look.
            met: set[int] = set()
            root.step = met.add if self._remember and len(data) > _SMALL else None
            moving = _moving(root, table, places) if self._remember else ()
            root.step = None
            binds = [
                Bind(
                    host_path=place.host_path,
                    path=place.path,
                    via=place.via,
                    writable=place.mount.writable,
                    propagated=place.mount.propagated,
                    sight=sight(root, table, place.path, list_names=self._is_listed(place), links=False),
                    device_is_mounted=self._places.is_mounted(place.mount),
                )
                for place in places
            ]
        # All of the above asked for the pid: was it one and the same process?
        now = proc.stat(process.pid)
        if now is None or now.start_ticks != stat.start_ticks:
            return None
        if proc.mount_namespace(process.pid) != process.mount_namespace:
            return None
        if process.doubt:
            # Who it is cannot be told, so nothing of what its process sees is the container's for certain.
            binds = [msgspec.structs.replace(bind, sight=Sight(problem=_DOUBT)) for bind in binds]
        owner = self._owners.of(process, spec)
        started = stat.start_ticks / proc.TICKS
        container = Container(
            id=process.container_id,
            name=owner.container,
            pod=owner.pod,
            attempt=owner.attempt,
            sandbox_id=owner.sandbox_id,
            pid=process.pid,
            started_boottime=started,
            started_at=proc.boot_epoch() + started,
            mount_namespace=process.mount_namespace,
            binder=Binder(pid=stat.parent, mount_namespace=binder_namespace),
            binds=tuple(sorted(binds, key=lambda bind: (bind.path, bind.host_path))),
        )
        subpaths = frozenset(place.path for place in places if place.subpath)
        receives = receives or not all(self._places.is_of_deployment(place.mount) for place in places)
        known_by = hash(data) if len(data) <= _SMALL else None
        again = root.led_aside or any(one.mount.fstype == "overlay" and self._is_listed(one) for one in places)
        return _Known(container, receives, moving, subpaths, known_by, frozenset(met), again)

    def _is_listed(self, place: Place) -> bool:
        return place.host_path in self._watched[len(_WATCHED_TREES) :]


def _moving(root: Root, table: MountTable, places: Iterable[Place]) -> tuple[tuple[str, Optional[What]], ...]:
    paths = [place.path for place in places if table.unsafe(place.path) is None]
    return tuple((path, _what(root, path)) for path in paths)


def _what(root: Root, path: str) -> Optional[What]:
    try:
        return root.what(path, links=False)
    except OSError:
        return None

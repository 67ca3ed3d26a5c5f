# SPDX-License-Identifier: Apache-2.0
"""The world at one moment."""

from __future__ import annotations

import functools
from typing import Optional

from ostreewatchd.model.cni import CniReader
from ostreewatchd.model.credential import ClockStep, Credential
from ostreewatchd.model.history import History, Pause
from ostreewatchd.model.host import Flag, Live, Ostree
from ostreewatchd.model.record import Record
from ostreewatchd.model.runtimes import Runtime
from ostreewatchd.model.settings import Settings
from ostreewatchd.model.sight import Container, Daemon, Reference, VmSandbox, is_of_one_container
from ostreewatchd.model.views import KubeletView, RpmOstreeView, RuntimeView, SystemView

SNAPSHOT_FORMAT = 2
"""What the older ones had otherwise is in replay/older.py."""


class Problem(Record, frozen=True, kw_only=True):
    """Something that could not be read: where, and why. The rest of the Snapshot holds; something that is stale may be
    behind it."""

    where: str
    what: str


class Node(Record, frozen=True, kw_only=True):
    name: str
    boot_id: str
    kernel: str
    platform: str


class Snapshot(Record, frozen=True, kw_only=True, dict=True):
    """The world at one moment. Judge and plan need nothing else."""

    format: int = SNAPSHOT_FORMAT
    product: str
    taken_at: float
    taken_boottime: float
    node: Node
    live: Live
    init_mount_namespace: int
    """PID 1's."""
    cni_directories: tuple[str, ...]
    writers: tuple[str, ...]
    """Container names of the platform's token writers, in the order in which they are restarted."""
    ostree: Ostree = Ostree()
    torn: str = ""
    """What moved while this was looked at: nothing in it is stale then (DESIGN invariant 4). Empty: nothing."""
    daemons: tuple[Daemon, ...] = ()
    vm_sandboxes: tuple[VmSandbox, ...] = ()
    self_written: tuple[str, ...]
    """Names in a CNI directory which their writer makes anew at each start; shell patterns."""
    container_count: int
    """All running containers; `containers` has those that hold a piece of the host's tree."""
    containers: tuple[Container, ...]
    references: tuple[Reference, ...]
    flags: tuple[Flag, ...]
    credentials: tuple[Credential, ...] = ()
    """Of CNI plugins: the host's, and those of containers that hold another directory."""
    restarts_silent_writers: bool = False
    """The node's RestartSilentWriters=."""
    cni_readers: tuple[CniReader, ...] = ()
    """Each runtime with the CNI directory that it reads."""
    clock_steps: tuple[ClockStep, ...] = ()
    """As far as who looks has been there; oldest first, bounded."""
    history: History
    system: Optional[SystemView] = None
    runtime: Optional[RuntimeView] = None
    """None: not asked (the watcher never asks)."""
    node_runtime: Optional[Runtime] = None
    """What the runtime and kubelet were started from, against what is there now. None: not looked at, or there is no
    such unit."""
    kubelet: Optional[KubeletView] = None
    rpm_ostree: Optional[RpmOstreeView] = None
    """As it was asked for this look; in the watcher's, as it was when its signals came last. None: neither."""
    problems: tuple[Problem, ...] = ()
    settings: Optional[Settings] = None
    """Those of the node, in a snapshot that was saved, so that the plan is the same anywhere."""
    anonymized: bool = False
    """Names, paths and ids are replaced by others."""

    def reference(self, host_path: str, mount_namespace: int) -> Optional[Reference]:
        """What a bind of `host_path` by a process in `mount_namespace` would show now."""
        return self._references.get((host_path, mount_namespace))

    @functools.cached_property
    def _references(self) -> dict[tuple[str, int], Reference]:
        """Each bind of each container asks. Of two of the same place the first is meant."""
        return {(one.host_path, one.mount_namespace): one for one in reversed(self.references)}

    @property
    def pause(self) -> Optional[Pause]:
        """The pause that is in effect."""
        order = self.history.pause
        holds = order is not None and order.holds(
            now=self.taken_at, boottime=self.taken_boottime, boot_id=self.node.boot_id
        )
        return order if holds else None

    @property
    def runtimes(self) -> tuple[Daemon, ...]:
        return tuple(one for one in self.daemons if one.kind == "runtime")

    def shows_the_hosts(self, path: str, mount_namespace: int) -> Optional[bool]:
        """Whether a bind of the path that is made in the mount namespace would show what PID 1 has there. None: of one
        of the two it is not known."""
        host, theirs = (self.reference(path, one) for one in (self.init_mount_namespace, mount_namespace))
        if host is None or host.sight.identity is None or theirs is None:
            return None
        if theirs.sight.identity is None:
            return False if theirs.sight.absent else None
        return theirs.sight.identity == host.sight.identity

    def stale_runtimes(self, path: str) -> tuple[Daemon, ...]:
        """The runtimes that are known not to see at the path what PID 1 has: no container and no sandbox that they
        make shows it."""
        return tuple(one for one in self.runtimes if self.shows_the_hosts(path, one.mount_namespace) is False)

    def has_binder_of_its_own(self, container: Container) -> bool:
        """Whether a new container gets a new process that makes its binds, so that it needs no new sandbox."""
        return is_of_one_container(container.binder.kind, self.runtimes)

    def cni_directory_of(self, path: str) -> str:
        """The CNI configuration directory that the host path is or lies below; empty if none."""
        for directory in self.cni_directories:
            if path == directory or path.startswith(directory + "/"):
                return directory
        return ""

    @property
    def soft_rebooted(self) -> bool:
        """Whether userspace was started anew in this boot: by systemd's count, or because the ledger knows another
        root with the same boot id. (systemd-soft-reboot.service(8); the kernel's command line tells nothing.)"""
        if self.system is not None and self.system.soft_reboots:
            return True
        root = str(self.ostree.root) if self.ostree.root is not None else ""
        known = (self.history.switch, self.history.before)
        return bool(root) and any(
            one is not None and one.boot_id == self.node.boot_id and one.root not in ("", root) for one in known
        )

    def container(self, container_id: str) -> Optional[Container]:
        for container in self.containers:
            if container.id == container_id:
                return container
        return None

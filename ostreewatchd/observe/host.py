# SPDX-License-Identifier: Apache-2.0
"""The host as PID 1 sees it: its root and its mounts, which platform it is, and what is under way."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Optional

from ostreewatchd.model import Flag, Problem, Sight
from ostreewatchd.parse import cgroup
from ostreewatchd.parse.mountinfo import MountTable, deployment_of, parse
from ostreewatchd.peers import proc
from ostreewatchd.peers.hostmounts import HostMounts
from ostreewatchd.peers.paths import LIST_LIMIT, MayNotAnswer, Root
from ostreewatchd.platforms import GENERIC, PLATFORMS, FlagFile, Platform

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class HostGone(Exception):
    """PID 1 cannot be looked at: nothing can be known."""


class Host:
    """PID 1's root and mounts, opened for one look; closed by `with`."""

    def __init__(self, mounts: Optional[HostMounts] = None) -> None:
        """`mounts`: kept by who looks again. Raises HostGone, which says what is missing."""
        self._mounts = mounts if mounts is not None else HostMounts()
        self._own_mounts = mounts is None
        root: Optional[Root] = None
        try:
            namespace, table = proc.mount_namespace(1), self._mounts.table()
            root = proc.root(1, table)
        except proc.Unreadable as error:
            self._release()
            raise HostGone(f"{error.what}: this needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH") from error
        if namespace is None or table is None or root is None:
            self._release()
            raise HostGone(_no_init())
        self.namespace = namespace
        self.table = table
        self.root = root

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *_: object) -> None:
        self.root.close()
        self._release()

    def _release(self) -> None:
        if self._own_mounts:
            self._mounts.close()

    @functools.cached_property
    def around(self) -> frozenset[str]:
        """The containers that the host itself is in (kind: a node is one), which are none on it. Raises HostGone."""
        try:
            return cgroup.container_ids(proc.read(1, "cgroup") or b"")
        except proc.Unreadable as error:
            raise HostGone(error.what) from error

    @functools.cached_property
    def doubt(self) -> Optional[Problem]:
        """Why PID 1 may not be the host's. In a PID namespace of its own (unshare(1), a container without hostPID) a
        program sees another one, and nothing of the host's processes. The units run where PID 1 is systemd; a person
        may be anywhere. Raises HostGone."""
        try:
            if cgroup.is_managers(proc.read(1, "cgroup") or b""):
                return None
        except proc.Unreadable as error:
            raise HostGone(error.what) from error
        what = (
            "it is not in systemd's init.scope, so it is hardly the host's: run this on the host, not in a PID"
            " namespace of its own (a container without hostPID)"
        )
        return Problem(where="PID 1", what=what)

    def table_now(self) -> MountTable:
        """The mount table as it is by now: the same one if nothing was mounted since. Raises HostGone."""
        try:
            table = self._mounts.table()
        except proc.Unreadable as error:
            raise HostGone(error.what) from error
        if table is None:
            raise HostGone(_no_init())
        self.root.mounts = table
        return table


def _no_init() -> str:
    """Why PID 1 is not to be seen: without CAP_SYS_PTRACE, hidepid= hides all that is somebody else's (proc(5))."""
    try:
        own = MountTable(parse(proc.read(os.getpid(), "mountinfo") or b"")).visible("/proc")
    except proc.Unreadable:
        own = None
    for option in own.super_options.split(",") if own is not None else ():
        if option.startswith("hidepid=") and option not in ("hidepid=0", "hidepid=off"):
            return f"PID 1 has no /proc entry: /proc is mounted with {option}, and CAP_SYS_PTRACE is missing"
    return "PID 1 has no /proc entry"


def only_on(devices: Set[int]) -> Callable[[int], None]:
    """For Root.step: raises Unreadable before anything is looked up on another filesystem than these."""

    def step(device: int) -> None:
        if device not in devices:
            raise proc.Unreadable("something was mounted on the way")

    return step


def sight(root: Root, table: MountTable, path: str, *, list_names: bool = False, links: bool = True) -> Sight:
    """What `path` is in `root`, whose mounts `table` has. A filesystem that may not answer is not touched."""
    unsafe = table.unsafe(path)
    if unsafe is not None:
        return Sight(
            problem=f"{unsafe.point} is {unsafe.fstype}, which may not answer: not touched", mount=unsafe.line
        )
    try:
        what = root.what(path, links=links)
        names = conf_names(root.names(path)) if list_names and what.is_directory else ()
    except MayNotAnswer as error:  # By way of a link.
        return Sight(problem=f"{path}: {error.strerror}", mount=error.mount.line)
    except OSError as error:
        return Sight(problem=f"{path}: {error.strerror}", absent=isinstance(error, FileNotFoundError))
    mount = table.by_id(what.mount_id) or table.visible(path)
    return Sight(
        identity=what.identity,
        deployment=deployment_of(mount.root)[0] if mount else "",
        mount=mount.line if mount else "",
        serial=what.serial,
        born_at=what.born_at,
        is_directory=what.is_directory,
        removed=what.links == 0,
        names=names,
    )


def conf_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names that a container runtime reads as CNI configuration (libcni: .conf, .conflist, .json); none of a
    listing that was cut, for then it says nothing."""
    if len(names) >= LIST_LIMIT:
        return ()
    return tuple(name for name in names if name.endswith((".conf", ".conflist", ".json")))


def boot_id(root: Root) -> str:
    """Through PID 1's /proc: the watcher's own shows processes alone (ProcSubset=pid). Raises HostGone."""
    try:
        return root.read(_BOOT_ID, 64).decode("ascii", "replace").strip()
    except OSError as error:
        raise HostGone(f"{_BOOT_ID}: {error.strerror}: the boot cannot be told from others") from error


def this_boot() -> str:
    """The boot id alone. Raises HostGone."""
    with Host() as host:
        return boot_id(host.root)


def platform_of(root: Root) -> Platform:
    """The first platform one of whose marks is there."""
    for platform in PLATFORMS:
        for mark in platform.marks:
            try:
                if root.exists(mark):
                    return platform
            except OSError:
                continue
    return GENERIC


def flags(root: Root, files: Iterable[FlagFile]) -> tuple[Flag, ...]:
    """The flag files that are there. One that cannot be looked at counts as there."""
    return tuple(found for found in (flag(root, file) for file in files) if found is not None)


def flag(root: Root, file: FlagFile) -> Optional[Flag]:
    """The flag file with its age in seconds; None if it is not there."""
    try:
        if not root.exists(file.path):
            return None
        age = time.time() - root.modified_at(file.path)
        if age < 0:
            age = proc.boottime()  # The clock was set back since: it is at the most as old as the boot.
    except OSError:
        age = 0.0
    return Flag(path=file.path, means=file.means, always=file.always, age=age)


def kernel_release() -> str:
    return os.uname().release


def node_name() -> str:
    return os.uname().nodename

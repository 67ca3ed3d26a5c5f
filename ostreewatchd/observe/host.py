# SPDX-License-Identifier: Apache-2.0
"""The host as PID 1 sees it: its mounts, which deployment is booted, live and pending, and what is under way.

Sources: ostree-sysroot.c (which deployment is booted, boot links), ostree-prepare-root(1), starlingx/update
ostree_utils.py (the binds of an in-service patch)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import Optional

from ostreewatchd.model import Deployments, Flag, Live, Sight
from ostreewatchd.parse import bootentry
from ostreewatchd.parse.mountinfo import Mount, MountTable, deployment_of, unsafe_mount
from ostreewatchd.peers import proc
from ostreewatchd.peers.hostmounts import HostMounts
from ostreewatchd.peers.paths import LIST_LIMIT, MayNotAnswer, Root
from ostreewatchd.platforms import GENERIC, PLATFORMS, FlagFile, Platform

_ENTRIES = "/boot/loader/entries"
_MAX_NAMES = 200
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
            raise HostGone("PID 1 has no /proc entry")
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

    def table_now(self) -> MountTable:
        """The mount table as it is by now: the same one if nothing was mounted since. Raises HostGone."""
        try:
            table = self._mounts.table()
        except proc.Unreadable as error:
            raise HostGone(error.what) from error
        if table is None:
            raise HostGone("PID 1 has no /proc entry")
        self.root.mounts = table
        return table


def sight(root: Root, table: MountTable, path: str, *, list_names: bool = False, links: bool = True) -> Sight:
    """What `path` is in `root`, whose mounts `table` has. A filesystem that may not answer is not touched."""
    unsafe = unsafe_mount(table, path)
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


def live(host: Host, boot: str, cni_directories: Iterable[str]) -> Live:
    """What `/usr` and `/etc` mean now."""
    usr, etc = sight(host.root, host.table, "/usr"), sight(host.root, host.table, "/etc")
    booted = _booted(host)
    deployments = Deployments(
        booted=booted,
        usr=usr.deployment,
        etc=etc.deployment,
        pending=_pending(host, {booted, etc.deployment, usr.deployment}),
    )
    switched = usr.deployment and etc.deployment and booted and booted not in (usr.deployment, etc.deployment)
    partial = ""
    if usr.deployment and etc.deployment and usr.deployment != etc.deployment:
        partial = f"/usr is of {usr.deployment} and /etc of {etc.deployment}"
        if switched:
            partial += ", neither of them booted"
    return Live(
        deployments=deployments,
        usr_class=_usr_class(host.table.visible("/usr"), booted),
        usr_mount=usr.mount,
        etc_mount=etc.mount,
        fingerprint=_fingerprint(boot, usr, etc, host.root, host.table, cni_directories),
        partial=partial,
    )


def fingerprint_now(host: Host, boot: str, cni_directories: Iterable[str]) -> str:
    """`Live.fingerprint` by what is mounted by now: another one if the host was switched since the look began.
    Raises HostGone."""
    table = host.table_now()
    usr, etc = sight(host.root, table, "/usr"), sight(host.root, table, "/etc")
    return _fingerprint(boot, usr, etc, host.root, table, cni_directories)


def _fingerprint(
    boot: str, usr: Sight, etc: Sight, root: Root, table: MountTable, cni_directories: Iterable[str]
) -> str:
    marks = [f"boot={boot}", _mark("/usr", usr), _mark("/etc", etc)]
    for path in cni_directories:
        marks.append(_mark(path, sight(root, table, path)))
    return " ".join(marks)


def _mark(path: str, seen: Sight) -> str:
    mount = seen.serial if seen.serial is not None else seen.mount.partition(" ")[0]
    return f"{path}={seen.identity or 'none'}@{mount}"


def _usr_class(mount: Optional[Mount], booted: str) -> str:
    if mount is None:
        return "foreign"
    deployment, _ = deployment_of(mount.root)
    if mount.deleted:
        return "deleted"
    if mount.point == "/usr" and mount.fstype == "overlay":
        if mount.source == "sysext":
            return "sysext"
        unlocked = ("lowerdir=usr,", "ostree-unlock-ovl.", "usr-transient", ".usr-ovl-upper")
        return "ostree-overlay" if any(mark in mount.super_options for mark in unlocked) else "foreign"
    if deployment:
        return "self" if deployment == booted else "other-deployment"
    return "self" if mount.point == "/" else "foreign"


def _booted(host: Host) -> str:
    """The deployment that `/` is: by the mount's root, else by the identity of each deployment's directory
    (composefs has no deployment in its root)."""
    mount = host.table.visible("/")
    if mount is not None:
        deployment, _ = deployment_of(mount.root)
        if deployment:
            return deployment
    try:
        root = host.root.what("/").identity
        for stateroot in host.root.names("/ostree/deploy")[:_MAX_NAMES]:
            base = f"/ostree/deploy/{stateroot}/deploy"
            for name in host.root.names(base)[:_MAX_NAMES]:
                if not name.endswith(".origin") and host.root.what(f"{base}/{name}").identity == root:
                    return f"{stateroot}-{name}"
    except OSError:
        return ""
    return ""


def _pending(host: Host, not_pending: set[str]) -> str:
    """The deployment of the boot loader entry with the highest version. Not asked where /boot may not answer
    (an automount would be triggered)."""
    if unsafe_mount(host.table, _ENTRIES) is not None:
        return ""
    best: Optional[bootentry.BootEntry] = None
    try:
        for name in host.root.names(_ENTRIES)[:_MAX_NAMES]:
            if name.endswith(".conf"):
                entry = bootentry.parse(host.root.read(f"{_ENTRIES}/{name}", bootentry.MAX_BYTES))
                if entry is not None and (best is None or entry.version > best.version):
                    best = entry
        if best is None:
            return ""
        target = host.root.readlink(best.link)
    except OSError:
        return ""
    # The link leads out of /ostree/boot.N: `../../../../deploy/<stateroot>/deploy/<checksum>.<serial>`.
    deployment, _ = deployment_of("/ostree/" + target.replace("../", ""))
    return "" if deployment in not_pending else deployment


def flags(root: Root, files: Iterable[FlagFile]) -> tuple[Flag, ...]:
    """The flag files that are there, with their age in seconds. One that cannot be looked at counts as there."""
    found = []
    for file in files:
        try:
            if not root.exists(file.path):
                continue
            age = time.time() - root.modified_at(file.path)
            if age < 0:
                age = proc.boottime()  # The clock was set back since: it is at the most as old as the boot.
        except OSError:
            age = 0.0
        found.append(Flag(path=file.path, means=file.means, always=file.always, age=age))
    return tuple(found)


def kernel_release() -> str:
    return os.uname().release


def node_name() -> str:
    return os.uname().nodename

# SPDX-License-Identifier: Apache-2.0
"""What paths are, and the containers that hold pieces of the host's tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Optional

from ostreewatchd.model.record import Record, Unsigned


class Identity(Record, frozen=True, kw_only=True):
    """What a path *is*: compare both numbers, always (an overlay keeps the inode and changes the device)."""

    dev: Unsigned
    ino: Unsigned

    def __str__(self) -> str:
        return f"{self.dev}:{self.ino}"


class Certificate(Record, frozen=True, kw_only=True):
    """Of a certificate only its name, its subject and its end leave the file (DESIGN invariant 10)."""

    name: str
    """The file's, below the directory."""
    subject: str
    ends_at: float


class Sight(Record, frozen=True, kw_only=True):
    """What one path is in one mount namespace. No identity: `problem` says why."""

    identity: Optional[Identity] = None
    deployment: str = ""
    """`<stateroot>-<checksum>.<serial>` as the mount's root tells it; empty where it tells none."""
    mount: str = ""
    """The mountinfo line of the mount that the path is on: evidence for people, never the verdict."""
    serial: Optional[int] = None
    """The mount's unique id (statx STATX_MNT_ID_UNIQUE, Linux 6.8): never reused and growing, so it orders
    mounts of one boot. None where the kernel has none."""
    born_at: Optional[float] = None
    """Birth of the file (statx btime), where the filesystem keeps it."""
    is_directory: bool = True
    absent: bool = False
    """There is no such path (and not: it could not be looked at)."""
    names: tuple[str, ...] = ()
    """What the directory lists, for a CNI configuration directory; sorted and bounded."""
    certificates: tuple[Certificate, ...] = ()
    """Those in the directory, for one that holds a control plane's certificates; sorted and bounded."""
    removed: bool = False
    """No name leads to it any more (its link count is 0): what is made in it goes nowhere. Evidence, no verdict."""
    problem: str = ""


class Bind(Record, frozen=True, kw_only=True):
    """A piece of the host's tree in a container."""

    host_path: str
    path: str
    """Where it is in the container."""
    via: str = ""
    """The host path of the mount that really is in the container, if it is an ancestor of `host_path`."""
    writable: bool
    propagated: bool
    """Receives the host's later mounts (HostToContainer, Bidirectional)."""
    sight: Sight
    made_in: Optional[int] = None
    """The mount namespace in which the source is looked up, where that is not the container's binder's: kubelet's,
    for a subPath."""
    device_is_mounted: bool = True
    """Whether the host still has the filesystem mounted that the container holds."""


class Pod(Record, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str


BinderKind = Literal["", "shim", "conmon"]


class Binder(Record, frozen=True, kw_only=True):
    """The process that makes a container's binds: shim or conmon."""

    pid: int
    mount_namespace: int
    kind: BinderKind = ""
    """Known where its mount namespace is not the runtime's: a shim stays with the pod, a conmon with the container."""


class Container(Record, frozen=True, kw_only=True):
    """A running container of a pod, known from the kernel and from files, without asking the runtime."""

    id: str
    name: str
    pod: Pod
    attempt: Optional[int] = None
    sandbox_id: str = ""
    pid: int
    started_boottime: float
    started_at: float
    mount_namespace: int
    binder: Binder
    binds: tuple[Bind, ...] = ()

    def maker(self, bind: Bind) -> int:
        """The mount namespace in which the source of the bind would be looked up for a restarted container."""
        return bind.made_in if bind.made_in is not None else self.binder.mount_namespace


class Daemon(Record, frozen=True, kw_only=True):
    """A process of the host that makes binds for containers: the runtime, or kubelet."""

    kind: Literal["runtime", "kubelet"]
    name: str
    pid: int
    mount_namespace: int
    unit: str = ""
    """The systemd unit that it is of; empty if none is named."""
    held_at: str = ""
    """The file at which its mount namespace is held for whoever joins it (kubens); empty: it is its own."""


def is_of_one_container(binder: BinderKind, runtimes: Iterable[Daemon]) -> bool:
    """Whether such a binder is one container's, as the conmon is that CRI-O starts for each; a shim is its sandbox's.
    Where the process could not be recognized, a node's only kind of runtime tells. (cri-o internal/oci; containerd
    core/runtime/v2.)"""
    names = {one.name for one in runtimes}
    return binder == "conmon" or names == {"crio"}


class VmSandbox(Record, frozen=True, kw_only=True):
    """A pod that runs in a virtual machine: the kernel of the host does not see what it has mounted."""

    sandbox_id: str
    pod: Pod
    shim: str
    """The command of the process that stands for it."""


class Reference(Record, frozen=True, kw_only=True):
    """What a container would get at `host_path` if the process in `mount_namespace` made the bind now."""

    host_path: str
    mount_namespace: int
    sight: Sight

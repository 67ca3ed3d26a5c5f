# SPDX-License-Identifier: Apache-2.0
"""Other processes' roots, opened with their mounts in which the host's own filesystems are told from theirs. What a
container mounted for itself may have behind it what does not answer, and nothing in its line needs to say so: an
overlay's layer may be a FUSE that is mounted nowhere any more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional

from ostreewatchd.model import Daemon
from ostreewatchd.observe.host import Host
from ostreewatchd.parse.mountinfo import Mounts, MountTable
from ostreewatchd.peers import proc
from ostreewatchd.peers.aside import Aside
from ostreewatchd.peers.paths import Root


class Roots:
    """Of one look."""

    def __init__(self, host: Host, daemons: Iterable[Daemon], aside: Aside) -> None:
        self._host = host.table.mounts
        self._daemons = {one.mount_namespace: one.pid for one in daemons if one.mount_namespace != host.namespace}
        self._theirs: Optional[list[bytes]] = None
        self._aside = aside

    def table(self, data: bytes, ways: Optional[Iterable[str]] = None) -> MountTable:
        """The mounts of a process, as Mounts takes them."""
        return MountTable(Mounts(data, ways, is_hosts=self._is_hosts))

    def open(self, pid: int, table: MountTable) -> Optional[Root]:
        """The root of the process whose mounts these are; None if it is gone. Raises Unreadable."""
        return proc.root(pid, table, self._aside)

    def _is_hosts(self, device: bytes, anywhere: bool) -> bool:
        """A container's root is where the runtime mounted it: in the host's mount namespace (containerd's shim below
        /run/containerd, CRI-O below /var/lib/containers), or in the one that the runtime has of its own (kubens)."""
        if self._host.has(device, anywhere):
            return True
        if not anywhere:
            return False
        if self._theirs is None:
            self._theirs = [_mountinfo(pid) for pid in self._daemons.values()]
        return any(b" %b /" % device in data for data in self._theirs)


def _mountinfo(pid: int) -> bytes:
    try:
        return proc.read(pid, "mountinfo") or b""
    except proc.Unreadable:
        return b""

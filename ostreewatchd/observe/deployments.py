# SPDX-License-Identifier: Apache-2.0
"""Which deployment is booted and staged, and which the next boot takes.

Sources: ostree-sysroot.c (parse_deployment: the booted one by the recorded device and inode, else by those of `/`;
boot links), ostree-soft-reboot.c and ostree-boot-complete.service (nextroot-booted), ostree#3161."""

from __future__ import annotations

from typing import Callable, Optional, TypeVar

from ostreewatchd.model import Identity, Unreadable
from ostreewatchd.observe.host import Host
from ostreewatchd.parse import bootentry, ostreestate
from ostreewatchd.parse.mountinfo import deployment_of
from ostreewatchd.peers.paths import Root
from ostreewatchd.platforms.ostree import BOOTED, NEXT_BOOTED, NEXT_ROOT, STAGED

_ENTRIES = "/boot/loader/entries"
_MAX_NAMES = 200
_T = TypeVar("_T")


class StateFiles:
    """Reads libostree's files of a host, each of them bounded. What is there and cannot be decoded is kept in
    `unreadable`, with the reason."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.unreadable: list[Unreadable] = []

    def read(self, path: str, parse: Callable[[bytes], _T]) -> Optional[_T]:
        """None: not there, or not readable."""
        try:
            return parse(self.host.root.read(path, ostreestate.MAX_BYTES))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ostreestate.OstreeStateError) as error:
            self.unreadable.append(Unreadable(path=path, what=getattr(error, "strerror", None) or str(error)))
            return None

    def exists(self, path: str) -> bool:
        try:
            return self.host.root.exists(path)
        except OSError as error:
            self.unreadable.append(Unreadable(path=path, what=error.strerror or str(error)))
            return False


def booted(host: Host) -> str:
    """The deployment that `/` is. The kernel names it where `/` is a bind of its directory; of a composefs only
    libostree's record tells. Empty: none, or it cannot be told."""
    mount = host.table.visible("/")
    if mount is not None:
        deployment, _ = deployment_of(mount.root)
        if deployment:
            return deployment
    files = StateFiles(host)
    record, known = files.read(BOOTED, ostreestate.booted), directories(files)
    if record is None or record.root is None:
        try:
            return known.get(host.root.what("/").identity, "")
        except OSError:
            return ""
    recorded, following = known.get(record.root, ""), _after_soft_reboot(files, known)
    etc = host.table.visible("/etc")
    if following and not (etc is not None and recorded and deployment_of(etc.root)[0] == recorded):
        return following
    return recorded


def _after_soft_reboot(files: StateFiles, known: dict[Identity, str]) -> str:
    """The deployment of the next root, if that is the root by now: until ostree-boot-complete.service renames its
    record, /run/ostree-booted still tells of the root before. Or it was prepared and is just being taken back."""
    record = files.read(NEXT_BOOTED, ostreestate.booted)
    if record is None or record.root is None or next_root_is_mounted(files.host):
        return ""
    return known.get(record.root, "")


def next_root_is_mounted(host: Host) -> bool:
    """Whether something is mounted at /run/nextroot: a soft reboot is prepared."""
    try:
        inside, above = host.root.what(NEXT_ROOT), host.root.what("/run")
    except OSError:
        return False
    return (
        inside.mount_id != above.mount_id if inside.mount_id is not None else inside.identity.dev != above.identity.dev
    )


def directories(files: StateFiles) -> dict[Identity, str]:
    """The deployments that are there, by the identity of their directories."""
    found: dict[Identity, str] = {}
    if not files.exists("/ostree/deploy"):
        return found
    root = files.host.root
    for base in (f"/ostree/deploy/{stateroot}/deploy" for stateroot in _names(root, "/ostree/deploy")):
        for name in _names(root, base):
            deployment, inside = deployment_of(f"{base}/{name}")
            if deployment and inside == "/":
                try:
                    found[root.what(f"{base}/{name}").identity] = deployment
                except OSError:
                    continue  # It was removed meanwhile.
    return found


def _names(root: Root, path: str) -> list[str]:
    try:
        return root.names(path)[:_MAX_NAMES]
    except OSError:
        return []


def staged(host: Host) -> str:
    """The deployment that is written at shutdown. Empty: none, or it cannot be told."""
    record = StateFiles(host).read(STAGED, ostreestate.staged)
    return record.deployment if record is not None else ""


def next_boot(host: Host) -> str:
    """The deployment of the boot loader entry with the highest version. Empty also where /boot may not answer: an
    automount would be triggered."""
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
    return deployment

# SPDX-License-Identifier: Apache-2.0
"""What `/usr` and `/etc` mean now, and how a switch is known again.

Sources: ostree-prepare-root(1), starlingx/update ostree_utils.py (the binds of an in-service patch), rpm-ostree
live.rs (the reference and the stamp of a live-apply), ostree-sysroot.c (ostree_sysroot_deployment_unlock:
`lowerdir=usr` from the booted deployment's directory)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ostreewatchd.model import Deployments, Flag, Live, Sight
from ostreewatchd.observe import deployments
from ostreewatchd.observe.host import Host, flag, flags, sight
from ostreewatchd.parse.livetree import etc_deployment, usr_class
from ostreewatchd.parse.mountinfo import MountTable
from ostreewatchd.peers.paths import Root
from ostreewatchd.platforms import FLAGS, FlagFile
from ostreewatchd.platforms.ostree import LIVE_APPLY_IN_PROGRESS, live_stamp


def live(host: Host, boot: str, cni_directories: Iterable[str]) -> Live:
    """What `/usr` and `/etc` mean now."""
    usr, etc = sight(host.root, host.table, "/usr"), sight(host.root, host.table, "/etc")
    booted = deployments.booted(host)
    kind = usr_class(host.table.visible("/usr"), booted)
    # An unlock's lower directory is the booted deployment's /usr, whatever was mounted over /usr before it.
    of_booted = kind.name == "self" or (kind.name == "ostree-overlay" and kind.overlay != "bootc")
    in_usr = usr.deployment or (booted if of_booted else "")
    in_etc = etc.deployment or etc_deployment(host.table.visible("/etc"), booted)
    partial = ""
    if in_usr and in_etc and in_usr != in_etc:
        partial = f"/usr is of {in_usr} and /etc of {in_etc}"
        if booted and booted not in (in_usr, in_etc):
            partial += ", neither of them booted"
    next_boot = deployments.next_boot(host)
    return Live(
        deployments=Deployments(
            booted=booted,
            usr=in_usr,
            etc=in_etc,
            pending="" if next_boot in (booted, in_etc, in_usr) else next_boot,
            next_boot=next_boot,
            staged=deployments.staged(host),
        ),
        usr_class=kind.name,
        usr_overlay=kind.overlay,
        usr_mount=usr.mount,
        etc_mount=etc.mount,
        fingerprint=_fingerprint(boot, usr, etc, host.root, host.table, cni_directories),
        partial=partial,
    )


def under_way(host: Host, booted: str) -> tuple[Flag, ...]:
    """The flag files that are there, and a live-apply that has not ended. (It holds no lock: of all that
    it does only its reference tells. Without the booted deployment's stamp that is a leftover of an earlier boot.)"""
    return (*flags(host.root, FLAGS), *_live_apply(host, booted))


def _live_apply(host: Host, booted: str) -> Iterator[Flag]:
    if not booted:
        return
    means = "rpm-ostree is applying a commit to the live /usr, or was interrupted"
    found = flag(host.root, FlagFile(LIVE_APPLY_IN_PROGRESS, means, always=False))
    if found is not None and _may_be_there(host.root, live_stamp(booted)):
        yield found


def _may_be_there(root: Root, path: str) -> bool:
    try:
        return root.exists(path)
    except OSError:
        return True


def is_unmoved(root: Root, before: Live, boot: str, cni_directories: Iterable[str]) -> bool:
    """Whether the fingerprint is certainly the same as before, without asking what is mounted: the kernel takes its
    time to write that on a node with many containers, and in a storm of mounts it is another text each time."""
    try:
        marks = [f"boot={boot}", *(_mark_now(root, path) for path in ("/usr", "/etc", *cni_directories))]
    except OSError:
        return False
    return " ".join(marks) == before.fingerprint


def _mark_now(root: Root, path: str) -> str:
    what = root.what(path)
    return f"{path}={what.identity}@{what.serial if what.serial is not None else what.mount_id}"


def fingerprint_now(host: Host, boot: str, cni_directories: Iterable[str]) -> str:
    """`Live.fingerprint` by what is mounted by now: another one if the host was switched since the look began.
    Raises HostGone."""
    table = host.table_now()
    usr, etc = sight(host.root, table, "/usr"), sight(host.root, table, "/etc")
    return _fingerprint(boot, usr, etc, host.root, table, cni_directories)


def _fingerprint(
    boot: str, usr: Sight, etc: Sight, root: Root, table: MountTable, cni_directories: Iterable[str]
) -> str:
    """The text is in ledgers: in another form the same state would be one more switch, in which a container may be
    restarted once more. The root is not in it, for a soft reboot makes all mounts below the root anew."""
    marks = [f"boot={boot}", _mark("/usr", usr), _mark("/etc", etc)]
    for path in cni_directories:
        marks.append(_mark(path, sight(root, table, path)))
    return " ".join(marks)


def _mark(path: str, seen: Sight) -> str:
    mount = seen.serial if seen.serial is not None else seen.mount.partition(" ")[0]
    return f"{path}={seen.identity or 'none'}@{mount}"

# SPDX-License-Identifier: Apache-2.0
"""What libostree and rpm-ostree left on disk and in /run: read as it is, judged elsewhere.

Sources: ostree-sysroot.c (unlock, staged deployments), rpm-ostree live.rs (stamp, references)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ostreewatchd.model import Identity, Inside, Live, Ostree
from ostreewatchd.observe import deployments
from ostreewatchd.observe.deployments import StateFiles
from ostreewatchd.observe.host import Host
from ostreewatchd.parse import ostreestate
from ostreewatchd.parse.livetree import is_composefs_native, is_writable, shows
from ostreewatchd.parse.mountinfo import deployment_of
from ostreewatchd.platforms import ostree as paths

_MAX_INSIDE = 50
_MAX_COMMAND_LINE = 64 << 10


def ostree(host: Host, live: Live) -> Ostree:
    """The state of an OSTree host; of any other one only what its mounts tell."""
    files = StateFiles(host)
    native, etc = is_composefs_native(host.table.visible("/")), host.table.visible("/etc")
    is_booted = files.exists(paths.BOOTED)
    writable = None if etc is None else is_writable(etc)
    booted = live.deployments.booted
    if not is_booted and not booted:
        return Ostree(
            is_booted=False,
            composefs_native=native,
            etc_writable=writable,
            unreadable=tuple(files.unreadable),
            missing=tuple(_missing(files, is_booted=False)),
        )
    record = files.read(paths.BOOTED, ostreestate.booted)
    staged = files.read(paths.STAGED, ostreestate.staged)
    return Ostree(
        is_booted=is_booted,
        recorded_root=record.root if record else None,
        composefs=bool(record and record.composefs),
        transient_etc=record.transient_etc if record else "",
        root=_root(host),
        unlocked=tuple(_unlocked(files, booted)),
        is_live=bool(booted) and files.exists(paths.live_stamp(booted)),
        live_commit=files.read(paths.LIVE_APPLY, ostreestate.commit) or "",
        live_target=files.read(paths.LIVE_APPLY_IN_PROGRESS, ostreestate.commit) or "",
        staged_is_locked=bool(staged and staged.locked),
        lock_file=files.exists(paths.STAGED_LOCK),
        finalize_failed=_finalize_failed(host),
        next_root=_next_root(files),
        composefs_native=native,
        etc_writable=writable,
        missing=tuple(_missing(files, is_booted=is_booted)),
        inside=tuple(_inside(host))[:_MAX_INSIDE],
        unreadable=tuple(files.unreadable),
    )


def _missing(files: StateFiles, *, is_booted: bool) -> Iterator[str]:
    """Only where the host's own word is that a deployment was booted: its record, or what else tells that."""
    if not is_booted:
        if not _was_prepared(files):
            return
        yield paths.BOOTED
    if not files.exists(f"{paths.LINK}/deploy"):
        below = files.exists(f"{paths.SYSROOT}{paths.LINK}/deploy")
        yield paths.LINK if below else paths.SYSROOT


def _was_prepared(files: StateFiles) -> bool:
    """Whether the kernel was told which deployment to boot, or ostree-prepare-root has left what it leaves."""
    if files.exists(paths.PREPARED):
        return True
    try:
        line = files.host.root.read("/proc/cmdline", _MAX_COMMAND_LINE)
    except OSError:
        return False
    return any(argument.startswith(b"ostree=") for argument in line.split())


def _root(host: Host) -> Optional[Identity]:
    try:
        return host.root.what("/").identity
    except OSError:
        return None


def _finalize_failed(host: Host) -> bool:
    """An automount of /boot is not triggered for it, and then it is not known."""
    try:
        return host.root.exists(paths.FINALIZE_FAILED)
    except OSError:
        return False


def _unlocked(files: StateFiles, booted: str) -> Iterator[str]:
    if not booted:
        return
    for kind in ("development", "transient"):
        if files.exists(paths.state_file(booted, f"unlocked-{kind}")):
            yield kind
    stateroot, _, name = booted.rpartition("-")
    if files.read(f"/ostree/deploy/{stateroot}/deploy/{name}.origin", ostreestate.is_hotfix):
        yield "hotfix"


def _next_root(files: StateFiles) -> str:
    """The deployment that a soft reboot would switch to; "unknown" where its record does not tell."""
    if not deployments.next_root_is_mounted(files.host):
        return ""
    record = files.read(paths.NEXT_BOOTED, ostreestate.booted)
    if record is None or record.root is None:
        return "unknown"
    return deployments.directories(files).get(record.root, "unknown")


def _inside(host: Host) -> Iterator[Inside]:
    """Visible mounts inside a deployment's directory which show the live /etc or /usr, or a part of it."""
    trees = [(path, host.table.visible(path)) for path in ("/etc", "/usr")]
    for mount in host.table.mounts.below("/sysroot/ostree/deploy", "/ostree/deploy"):
        deployment, _ = deployment_of(f"/ostree/deploy{mount.point.partition('/ostree/deploy')[2]}")
        if not deployment or host.table.visible(mount.point) is not mount:
            continue
        for path, tree in trees:
            if tree is not None and shows(mount, tree, path):
                yield Inside(deployment=deployment, point=mount.point, shows=path, writable=is_writable(mount))
                break

# SPDX-License-Identifier: Apache-2.0
"""The state of the host: what is booted, live and pending, and what is under way."""

from __future__ import annotations

from typing import Literal, Optional

from ostreewatchd.model.record import Record
from ostreewatchd.model.sight import Identity

UsrClassName = Literal["self", "other-deployment", "ostree-overlay", "sysext", "deleted", "foreign"]
"""What the visible mount of /usr makes of it."""
UsrOverlay = Literal["", "development", "transient", "hotfix", "bootc"]
"""Of an ostree-overlay its kind."""


def short_name(deployment: str) -> str:
    """`debian-3f2a01bc9d.0` for a deployment's full name, as people read it; "-" for none."""
    head, _, rest = deployment.rpartition("-")
    checksum, _, serial = rest.partition(".")
    return (f"{head}-{checksum[:10]}.{serial}" if len(checksum) > 20 else deployment) or "-"


class Deployments(Record, frozen=True, kw_only=True):
    """Which deployment is which; empty where there is none or it cannot be told."""

    booted: str = ""
    etc: str = ""
    usr: str = ""
    pending: str = ""
    """The one that the next boot takes, where that is neither booted nor live."""
    next_boot: str = ""
    """The one that the next boot takes, as the boot loader's newest entry says, also where it is booted or live."""
    staged: str = ""
    """The one that is written at shutdown, to be booted then."""


class Live(Record, frozen=True, kw_only=True):
    """What `/usr` and `/etc` mean now."""

    deployments: Deployments
    usr_class: UsrClassName
    usr_overlay: UsrOverlay = ""
    """As its mount tells."""
    usr_mount: str = ""
    etc_mount: str = ""
    fingerprint: str = ""
    """Equal as long as nothing was switched: the boot, the visible mounts of /usr and /etc, and the identity
    of each watched directory. It is how the ledger knows a switch again."""
    partial: str = ""
    """What contradicts itself: `/usr` of one deployment and `/etc` of another."""

    @property
    def besides_booted(self) -> str:
        """The deployment that is live in /etc, else in /usr, and is not the booted one; empty: there is none."""
        names = self.deployments
        others = [name for name in (names.etc, names.usr) if name not in ("", names.booted)]
        return others[0] if names.booted and others else ""

    @property
    def is_switched(self) -> bool:
        """Whether something else is live than was booted, as far as that is known. An extension over /usr (sysext) is
        there from boot on, so it is no sign of that."""
        names = self.deployments
        other = self.usr_class in ("other-deployment", "ostree-overlay", "deleted")
        return bool(names.booted) and (names.etc not in ("", names.booted) or other)


class Inside(Record, frozen=True, kw_only=True):
    """A mount inside a deployment's directory, which shows a live tree."""

    deployment: str
    point: str
    shows: str
    """`/etc` or `/usr`: that, a part of it, or something that has it inside."""
    writable: bool = True


class Unreadable(Record, frozen=True, kw_only=True):
    """A file that is there and cannot be decoded or looked at, and why."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


class Ostree(Record, frozen=True, kw_only=True):
    """What libostree and rpm-ostree left on disk and in /run, as it was found; what it means is judged.
    Sources: ostree-sysroot.c, otcore.h, rpm-ostree live.rs."""

    is_booted: Optional[bool] = None
    """Whether /run/ostree-booted is there; None: not looked at."""
    recorded_root: Optional[Identity] = None
    """The booted deployment's directory, as /run/ostree-booted records it. No rule reads it: it is evidence of which
    deployment was taken for the booted one, and `snapshot diff` tells that another was recorded (a soft reboot)."""
    composefs: bool = False
    """As the record says. Evidence, too."""
    transient_etc: str = ""
    root: Optional[Identity] = None
    """What `/` is."""
    unlocked: tuple[str, ...] = ()
    """The booted deployment's: development, transient (flag files), hotfix (its origin)."""
    is_live: bool = False
    """rpm-ostree's stamp of the booted deployment is there."""
    live_commit: str = ""
    """refs/heads/rpmostree/live-apply; means something only with the stamp."""
    live_target: str = ""
    """refs/heads/rpmostree/live-apply-inprogress."""
    staged_is_locked: bool = False
    """Of the staged deployment: its key `locked`."""
    lock_file: bool = False
    """/run/ostree/staged-deployment-locked, which can outlive what it locked."""
    finalize_failed: bool = False
    """/boot/ostree/finalize-failure.stamp."""
    next_root: str = ""
    """The deployment that is prepared at /run/nextroot for a soft reboot, or "unknown"; empty: none is."""
    composefs_native: bool = False
    """`/` is bootc's own composefs, which has no OSTree deployments."""
    unreadable: tuple[Unreadable, ...] = ()
    missing: tuple[str, ...] = ()
    """What each host has that was booted by OSTree, and this one has not: `/run/ostree-booted`, `/ostree` (the link),
    `/sysroot` (the deployments' filesystem: something else is mounted there)."""
    etc_writable: Optional[bool] = None
    """Whether the visible mount of /etc can be written; None: it has none that is known."""
    inside: tuple[Inside, ...] = ()
    """Mounts inside a deployment's directory that show a live tree."""

    def is_unreadable(self, path: str) -> bool:
        """Whether the file at the path is one of the unreadable."""
        return any(one.path == path for one in self.unreadable)


class Flag(Record, frozen=True, kw_only=True):
    """A file by which the platform says that something is under way."""

    path: str
    means: str
    always: bool
    """Blocks as long as it is there. Otherwise only until the cap, and only while mounts are incomplete."""
    age: float

# SPDX-License-Identifier: Apache-2.0
"""A file of libostree's or rpm-ostree's is there and cannot be decoded, or names no deployment that is there; or what
each host has that was booted by OSTree is missing.

Nothing is guessed from it: GLib would read a torn file as an empty one, and what it says would be its opposite.

Source: ostree-sysroot.c (parse_deployment: "Unexpected state: /run/ostree-booted found, but no / deployment found");
ostree-prepare-root(1) (/run/ostree-booted, /sysroot, the link /ostree); the GVariant specification (normal form)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Finding, Snapshot, Unreadable
from ostreewatchd.platforms.ostree import BOOTED, LINK, SYSROOT

rule = HostRule("unreadable-state")

_MISSING = {
    BOOTED: (
        "not-recorded: this boot is of a deployment, and the file by which every program knows that was removed:"
        " libostree and rpm-ostree take this for a host without OSTree",
        "reboot: it is made at boot, and should not be made by hand",
    ),
    LINK: (
        "link-missing: the deployments are in /sysroot/ostree, and /ostree does not lead there: libostree's and"
        " rpm-ostree's state is not seen",
        "`ls -ld /ostree`: it is a link to sysroot/ostree",
    ),
    SYSROOT: (
        "sysroot-hidden: no deployments are below /sysroot: something else is mounted there, or they were removed",
        "`findmnt /sysroot` shows what is mounted there",
    ),
}


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each file; and the booted deployment where no file is to blame."""
    for one in snapshot.ostree.unreadable:
        yield rule.not_known(
            one.path, because=_for_people(one), remedy="none: look at the file; a reboot writes those in /run"
        )
    for path, (because, remedy) in _MISSING.items():
        if path in snapshot.ostree.missing:
            yield rule.not_known(path, because=because, remedy=remedy)
    lost = snapshot.ostree.is_booted and not snapshot.ostree.missing and not snapshot.live.deployments.booted
    if lost and not snapshot.ostree.is_unreadable(BOOTED):
        yield rule.not_known(
            BOOTED,
            because="the host says that it was booted by OSTree, and no deployment's directory is the one that it"
            " records, nor `/`",
            remedy="`ostree admin status` as root on the host",
        )


def _for_people(one: Unreadable) -> str:
    """What a decoder says, with what it means."""
    if "GVariant" in one.what:
        return f"{one.path} is damaged: it is torn, or libostree did not write it ({one.what})"
    return one.what

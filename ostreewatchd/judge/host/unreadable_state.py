# SPDX-License-Identifier: Apache-2.0
"""A file of libostree's or rpm-ostree's is there and cannot be decoded, or names no deployment that is there.

Nothing is guessed from it: GLib would read a torn file as an empty one, and what it says would be its opposite.

Source: ostree-sysroot.c (parse_deployment: "Unexpected state: /run/ostree-booted found, but no / deployment found");
the GVariant specification (normal form)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Finding, Snapshot
from ostreewatchd.platforms.ostree import BOOTED

rule = HostRule("unreadable-state")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each file; and the booted deployment where no file is to blame."""
    unreadable = snapshot.ostree.unreadable
    for line in unreadable:
        path, _, why = line.partition(": ")
        yield rule.not_known(path, because=why, remedy="none: look at the file; a reboot writes those in /run")
    lost = snapshot.ostree.is_booted and not snapshot.live.deployments.booted
    if lost and not any(line.startswith(f"{BOOTED}: ") for line in unreadable):
        yield rule.not_known(
            BOOTED,
            because="the host says that it was booted by OSTree, and no deployment's directory is the one that it"
            " records, nor `/`",
            remedy="`ostree admin status` as root on the host",
        )

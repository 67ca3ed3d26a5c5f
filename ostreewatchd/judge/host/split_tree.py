# SPDX-License-Identifier: Apache-2.0
"""/usr is of one deployment and /etc of another, and nobody is about to change that.

Between the mounts of a switch that is so for a moment; a flag file says that it goes on. Without one, or with one that
is older than any switch takes, it has stopped half-way. Or the host was unlocked after it: the overlay on
/usr is of the booted deployment, and what the switch had mounted is below it.

Source: starlingx/update 83fb74a (Launchpad 1999447), 8422b68 (Launchpad 1999262), ostree_utils.py
(mount_new_deployment: /usr first, then /etc); ostree-sysroot.c (ostree_sysroot_deployment_unlock: `lowerdir=usr`)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule, is_under_way
from ostreewatchd.model import Finding, Snapshot, short_name

rule = HostRule("split-tree")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """By the deployments that the visible mounts name."""
    live, names = snapshot.live, snapshot.live.deployments
    if live.partial and not is_under_way(snapshot):
        why = "the switch has stopped half-way"
        if live.usr_class == "ostree-overlay":
            why = "the overlay of an unlock shows the booted deployment's /usr, also where another one was live before"
        yield rule.wrong(
            "/etc",
            because=f"/usr is of {short_name(names.usr)} and /etc of {short_name(names.etc)}: {why}",
            remedy="repeat the switch, so that both are of one deployment, or reboot",
            evidence=(live.usr_mount, live.etc_mount),
        )

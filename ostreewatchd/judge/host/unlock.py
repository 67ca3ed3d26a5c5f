# SPDX-License-Identifier: Apache-2.0
"""libostree says that the booted deployment is unlocked and /usr has no such overlay, or the other way round.

`flag-without-mount`: the unlock was made in another mount namespace, or `/` is private: whoever asks libostree hears
"unlocked" and the host has nothing of it. `hotfix-without-overlay`: the overlay that each boot has to make was not
made. `overlay-without-flag`: the flag follows its mount by a moment, so a second look may find both;
later it comes no more.

Source: ostree-sysroot.c (ostree_sysroot_deployment_unlock: first the mount, then the flag); ostreedev/ostree#2653;
coreos/fedora-coreos-tracker#2087."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Finding, Snapshot
from ostreewatchd.platforms.ostree import state_file

rule = HostRule("unlock-contradiction")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Only where the visible mount of /usr is the deployment's own, or such an overlay: what lies over both hides
    which of them is there."""
    live, unlocked = snapshot.live, snapshot.ostree.unlocked
    for kind in unlocked if live.usr_class == "self" else ():
        if kind == "hotfix":
            yield rule.wrong(
                "/usr",
                because="hotfix-without-overlay: the booted deployment's origin says unlocked=hotfix, and /usr has no"
                " overlay: what the hotfix changed is not there",
                remedy="see the kernel's log for overlayfs; boot with a kernel that can mount it, or deploy anew",
                evidence=(live.usr_mount,),
            )
        else:
            yield rule.wrong(
                state_file(live.deployments.booted, f"unlocked-{kind}"),
                because=f"flag-without-mount: libostree says unlocked ({kind}), and the host's /usr has no overlay: it"
                " was unlocked in another mount namespace, or below a private `/`",
                remedy="nothing is live of it; it ends with the next reboot, or unlock in PID 1's mount namespace",
                evidence=(live.usr_mount,),
            )
    is_unlock = live.usr_class == "ostree-overlay" and live.usr_overlay != "bootc"
    if is_unlock and snapshot.ostree.is_booted and not unlocked:
        yield rule.not_known(
            "/usr",
            because=f"overlay-without-flag: /usr has the overlay of an unlock ({live.usr_overlay}), and"
            " libostree does not say that it is unlocked",
            remedy="look again: the flag follows its mount at once. If it is still missing the overlay was mounted by"
            " hand, or the flag was removed: what was changed in /usr is gone after the next reboot",
            evidence=(live.usr_mount,),
        )

# SPDX-License-Identifier: Apache-2.0
"""A live-apply of rpm-ostree was interrupted, or what it left contradicts itself.

`live-apply-interrupted`: the stamp and the reference of one in progress are there, and for longer than one takes: /usr
is partly of the one commit and partly of the other. A reference without the booted deployment's stamp is a leftover of
an earlier boot and says nothing.

Source: rpm-ostree rust/src/live.rs (write_live_state: references first, then the stamp; the references outlive a
reboot, the stamp does not)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import IN_PROGRESS_FOR, HostRule
from ostreewatchd.model import Finding, Snapshot
from ostreewatchd.platforms.ostree import LIVE_APPLY_IN_PROGRESS, live_stamp

rule = HostRule("live-apply-contradiction")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Nothing where there is no stamp."""
    ostree, live = snapshot.ostree, snapshot.live
    if not ostree.is_live:
        return
    stamp = live_stamp(live.deployments.booted)
    if live.usr_class == "self":
        yield rule.wrong(
            stamp,
            because="stamp-without-overlay: rpm-ostree says that another commit is live in /usr, and /usr has no"
            " overlay: it is the booted one's",
            remedy="reboot, or `rpm-ostree apply-live --reset` in PID 1's mount namespace",
            evidence=(live.usr_mount,),
        )
    if ostree.live_target:
        age = max((flag.age for flag in snapshot.flags if flag.path == LIVE_APPLY_IN_PROGRESS), default=0.0)
        if age >= IN_PROGRESS_FOR:
            yield rule.wrong(
                LIVE_APPLY_IN_PROGRESS,
                because=f"live-apply-interrupted: applying commit {ostree.live_target[:10]} to /usr began"
                f" {age:.0f} s ago and has not ended: /usr may be partly of it and partly of"
                f" {ostree.live_commit[:10] or 'the booted commit'}",
                remedy="`rpm-ostree apply-live` again, or reboot",
                evidence=(live.usr_mount,),
            )
    elif not ostree.live_commit:
        yield rule.not_known(
            stamp,
            because="stamp-without-references: rpm-ostree's stamp is there, and no reference says which commit is"
            " live",
            remedy="`rpm-ostree status`; a reboot makes it certain",
        )

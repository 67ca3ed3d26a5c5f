# SPDX-License-Identifier: Apache-2.0
"""A staged deployment was lost, or a lock outlived the one that it was for.

`finalize-failed`: what was staged was not written at the last shutdown, so the boot is the old one again.
`lock-without-staged`: nothing is staged and the file is there that would keep it from being written: an older
libostree takes it for the next one that is staged.

Source: ostree-sysroot-deploy.c (finalize-failure.stamp); ostreedev/ostree#2543, #3025, #1866; coreos/rpm-ostree#1567,
#1791, #2342, #5567."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Finding, Snapshot
from ostreewatchd.platforms.ostree import FINALIZE_FAILED, STAGED, STAGED_LOCK

rule = HostRule("staged-contradiction")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Not where what is staged cannot be decoded."""
    ostree = snapshot.ostree
    if ostree.finalize_failed:
        yield rule.wrong(
            FINALIZE_FAILED,
            because="finalize-failed: the deployment that was staged was not written at the last shutdown: this boot"
            " is not the update that was asked for",
            remedy="`journalctl -b -1 -u ostree-finalize-staged.service` says why; then stage it again",
        )
    if ostree.lock_file and not snapshot.live.deployments.staged and not ostree.is_unreadable(STAGED):
        yield rule.wrong(
            STAGED_LOCK,
            because="lock-without-staged: nothing is staged, and the lock of a staged deployment is still there",
            remedy="remove the file, before the next deployment is staged",
        )

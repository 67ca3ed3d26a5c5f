# SPDX-License-Identifier: Apache-2.0
"""The live /etc of a deployment cannot be written: configuration, leases and tokens that are written there are lost.

Source: starlingx/update 62f537c (a further in-service patch stacked a read-only bind); ostree-prepare-root(1) (/etc is
writable, also where `/` is not)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Finding, Snapshot

rule = HostRule("read-only-etc")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Not of a host whose /etc is no deployment's, or made anew at each boot: there it may be meant so."""
    live, ostree = snapshot.live, snapshot.ostree
    if ostree.etc_writable is False and live.deployments.etc and not ostree.transient_etc:
        yield rule.wrong(
            "/etc",
            because="the visible mount of /etc is read-only: whatever writes configuration there fails",
            remedy="`mount -o remount,bind,rw /etc` if its mount is what is read-only; see the kernel's log for errors"
            " of the filesystem otherwise",
            evidence=(live.etc_mount,),
        )

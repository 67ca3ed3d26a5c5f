# SPDX-License-Identifier: Apache-2.0
"""The host is booted by bootc's own composefs backend, which has no OSTree deployments: they are not told apart here.

What containers hold is judged all the same, by identity alone.

Source: bootc crates/lib/src/composefs_consts.rs, crates/initramfs (the source of `/` is `composefs:…`)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Finding, Snapshot

rule = HostRule("composefs-native")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Once, for all of it."""
    if snapshot.ostree.composefs_native:
        yield rule.not_known(
            "/",
            because="bootc's composefs backend is not supported: which deployment is booted, staged or live is not"
            " known; containers are judged by identity alone",
            remedy="none: see `bootc status`",
        )

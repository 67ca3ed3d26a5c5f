# SPDX-License-Identifier: Apache-2.0
"""The credential that the host has for a CNI plugin is about to end, and whoever should have renewed it has not.

Source: kubernetes pkg/kubelet/token/token_manager.go (renewed at 80 % of its time); starlingx/ansible-playbooks
3f409902 (Launchpad 2090964: the one of a year, which nobody renews)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.judge.tokens.state import state_of
from ostreewatchd.judge.tokens.writers import dates, remedy
from ostreewatchd.model import Finding, Snapshot

rule = HostRule("token-expiring")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each of the host's."""
    for one in snapshot.credentials:
        if state_of(snapshot, one) == "expiring":
            because = f"it is about to end ({dates(one)}) and was not renewed: no pod will start here then"
            yield rule.wrong(one.path, because=because, remedy=remedy(snapshot, one))

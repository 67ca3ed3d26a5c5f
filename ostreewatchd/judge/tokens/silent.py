# SPDX-License-Identifier: Apache-2.0
"""Who writes the host's credential for a CNI plugin should have renewed it by its own schedule, and has not; it is not
over yet. Where the writer has another directory than the host, that is why, and the rule of that mount says so.

A token whose end was put off (`warnafter`) is late when the end is past that was asked for: it works for a year, and
then it does not.

Source: projectcalico/calico node/pkg/cni/token_watch.go, #7584, #8368, #7220 (it may not make tokens); kubernetes
pkg/kubelet/token/token_manager.go; starlingx/ansible-playbooks 3f409902 (Launchpad 2090964)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.judge.tokens.state import renewal_due, state_of
from ostreewatchd.judge.tokens.writers import dates, holds_another, remedy, writers
from ostreewatchd.model import Finding, Snapshot, moment_of

rule = HostRule("writer-silent")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each of the host's."""
    for one in snapshot.credentials:
        if state_of(snapshot, one) != "late":
            continue
        if any(holds_another(snapshot, bind) for _, bind in writers(snapshot, one)):
            continue
        because = f"it should have been renewed by {moment_of(renewal_due(one))} ({dates(one)}), and was not"
        yield rule.noted(one.path, because=because, remedy=remedy(snapshot, one))

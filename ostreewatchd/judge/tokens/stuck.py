# SPDX-License-Identifier: Apache-2.0
"""The host's credential is over, and a container that should renew it runs on and does not, although what it writes
would reach the host. Where the configuration asks for it, it is restarted once: a container that was started since a
new one was due has shown that a restart brings none.

Source: projectcalico/calico#8777, #5712 (a watcher that went quiet; a restart cures), #7584, #8368, #7220 (it may not
make tokens: no restart cures)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.rule import Cure, Rule, by_hand, subject_of
from ostreewatchd.judge.tokens.state import renewal_due, state_of
from ostreewatchd.judge.tokens.writers import dates, holds_another, writers
from ostreewatchd.model import Finding, Snapshot, moment_of

rule = Rule("writer-stuck", cure=Cure.RESTART_CONTAINER)


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each writer of each that has expired, if RestartSilentWriters= says so."""
    for one in snapshot.credentials if snapshot.restarts_silent_writers else ():
        if state_of(snapshot, one) != "expired":
            continue
        for container, bind in writers(snapshot, one):
            if holds_another(snapshot, bind):
                continue  # That is why, and the rule of its mount cures it.
            owed = container.started_at < renewal_due(one)
            why = f"it has expired ({dates(one)}), and was to be renewed by {moment_of(renewal_due(one))}"
            yield Finding(
                rule=rule.name,
                verdict="stale",
                owed=owed,
                subject=subject_of(container),
                path=one.path,
                inside=bind.path,
                reason=why if owed else f"noted only: {why}; its writer was started since then, and did not",
                remedy=rule.cure.value if owed else f"its log tells why; {by_hand(container)}",
            )

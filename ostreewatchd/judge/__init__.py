# SPDX-License-Identifier: Apache-2.0
"""Pure rules over a Snapshot: what is stale, fresh or unknown, and what is owed."""

from __future__ import annotations

from ostreewatchd.judge import replaced_file, stale_mount
from ostreewatchd.judge.rule import Rule
from ostreewatchd.model import Finding, Snapshot

RULES: tuple[Rule, ...] = (stale_mount.rule, replaced_file.rule)


def judge(snapshot: Snapshot) -> tuple[Finding, ...]:
    """All findings of all rules: owed first, then by subject and path."""
    found = [finding for rule in RULES for finding in rule.judge(snapshot)]
    found.sort(key=lambda one: (not one.owed, one.verdict, str(one.subject), one.path, one.inside))
    return tuple(found)

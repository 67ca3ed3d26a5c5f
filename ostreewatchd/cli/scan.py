# SPDX-License-Identifier: Apache-2.0
"""Look now, or into a saved snapshot, and list what is stale; ask no process."""

from __future__ import annotations

import argparse
from typing import Any, Optional

import msgspec

from ostreewatchd.cli.world import exit_status, from_argument, json_argument, see
from ostreewatchd.model import Finding, Snapshot
from ostreewatchd.report import words
from ostreewatchd.report.jsontext import json_text
from ostreewatchd.report.printable import printable


def arguments(parser: argparse.ArgumentParser) -> None:
    json_argument(parser)
    from_argument(parser)


def run(options: argparse.Namespace) -> int:
    _, snapshot, findings = see(options)
    if options.json:
        print(json_text(as_object(snapshot, findings)))
        return exit_status(snapshot, findings)
    print(printable(words.summary(snapshot, findings)))
    for finding in findings:
        print(f"  {words.finding(finding)}")
    for act in snapshot.history.acts:
        if not act.outcome:
            print(f"  under way: {words.act(act)}")
    for problem in snapshot.problems:
        print(f"  {words.problem(problem)}")
    return exit_status(snapshot, findings)


def as_object(snapshot: Snapshot, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """What `--json` prints: node, live, findings."""
    names = snapshot.live.deployments
    return {
        "node": snapshot.node.name,
        "live": {
            "deployment": names.etc or names.booted,
            "usr": names.usr,
            "usr_class": snapshot.live.usr_class,
            "booted": names.booted,
            "pending": names.pending,
            "next_boot": names.next_boot,
            "staged": names.staged,
            "since": since(snapshot),
        },
        "containers": snapshot.container_count,
        "findings": [msgspec.to_builtins(finding) for finding in findings],
        "problems": [msgspec.to_builtins(problem) for problem in snapshot.problems],
    }


def since(snapshot: Snapshot) -> Optional[float]:
    """When the ledger first saw the live state, in seconds since the epoch; None if it has not."""
    switch = snapshot.history.switch
    return switch.seen_at if switch is not None and switch.fingerprint == snapshot.live.fingerprint else None

# SPDX-License-Identifier: Apache-2.0
"""Show what CNI plugins reach the API server with: what the host has, what pods wrote elsewhere, and until when."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Optional

import msgspec

from ostreewatchd.cli.world import exit_status, from_argument, json_argument, see
from ostreewatchd.judge.tokens.state import renewal_due, state_of
from ostreewatchd.model import Credential, Finding, Snapshot
from ostreewatchd.report import words
from ostreewatchd.report.jsontext import json_text
from ostreewatchd.report.printable import printable

_WIDTH = 24
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))
_MEANS = {
    "": "",
    "unreadable": "cannot be read",
    "orphaned": "its pod is gone",
    "expired": "EXPIRED",
    "expiring": "about to end",
    "late": "late",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    json_argument(parser)
    from_argument(parser)


def run(options: argparse.Namespace) -> int:
    _, snapshot, findings = see(options)
    if options.json:
        print(json_text(as_object(snapshot, findings)))
        return exit_status(snapshot, findings)
    for line in table(snapshot, bars=sys.stdout.isatty()):
        print(printable(line))
    for finding in about_tokens(findings):
        print(f"  {words.finding(finding)}")
    for problem in snapshot.problems:
        print(f"  {words.problem(problem)}")
    return exit_status(snapshot, findings)


def about_tokens(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Those of the rules about credentials."""
    return tuple(one for one in findings if one.rule.startswith(("token-", "writer-")))


def as_object(snapshot: Snapshot, findings: Sequence[Finding]) -> dict[str, Any]:
    """What `--json` prints: each credential with where it is, its state and when a new one is due (seconds since the
    epoch, null where nobody is known to renew it), and what is found."""
    return {
        "node": snapshot.node.name,
        "taken_at": snapshot.taken_at,
        "credentials": [
            {
                **msgspec.to_builtins(one),
                "container": _who(snapshot, one) if one.container_id else None,
                "state": state_of(snapshot, one),
                "renewal_due": _due(one),
            }
            for one in snapshot.credentials
        ],
        "clock_steps": msgspec.to_builtins(snapshot.clock_steps),
        "findings": [msgspec.to_builtins(one) for one in about_tokens(findings)],
    }


def table(snapshot: Snapshot, *, bars: bool) -> Iterator[str]:
    """A line a file, and one a container that has another than the host. Pure. `bars`: with how much of its time is
    gone; `|` is when a new one is due."""
    if not snapshot.credentials:
        yield "no credential of a CNI plugin in " + ", ".join(snapshot.cni_directories)
    for path in dict.fromkeys(one.path for one in snapshot.credentials):
        mine = [one for one in snapshot.credentials if one.path == path]
        yield f"{mine[0].writer or 'unknown writer'}: {path}"
        for one in sorted(mine, key=lambda it: bool(it.container_id)):
            yield f"  {_who(snapshot, one):<14} {_line(snapshot, one, bars=bars)}"
        if all(one.container_id for one in mine):
            yield "  host           has none"
    if snapshot.clock_steps:
        by = sum(step.by for step in snapshot.clock_steps)
        yield f"the clock was set {len(snapshot.clock_steps)} times, by {by:+.0f} s in all: dates may be off by that"


def _who(snapshot: Snapshot, one: Credential) -> str:
    if not one.container_id:
        return "host"
    container = snapshot.container(one.container_id)
    return container.name if container is not None and container.name else one.container_id[:12]


def _line(snapshot: Snapshot, one: Credential, *, bars: bool) -> str:
    if one.problem:
        return f"cannot be told: it {one.problem}"
    if one.kind == "other":
        return "neither a token nor a certificate in the file: not looked at"
    now = snapshot.taken_at
    parts = [_bar(one, now)] if bars and one.issued_at is not None and one.expires_at is not None else []
    parts.append(f"{_span(now - one.issued_at)} old" if one.issued_at is not None else "of unknown age")
    parts.append(_end(one, now))
    due = _due(one)
    if due is not None and not one.container_id:
        parts.append(f"renewal due by {words.when(due)}")
    if one.pod:
        parts.append(f"bound to {one.pod}" + (", which is here" if one.pod_is_here else ""))
    if one.same is not None:
        parts.append("the same as the host's" if one.same else "another than the host's")
    if one.accepted is not None:
        parts.append("accepted by the API server" if one.accepted else "REFUSED by the API server")
    meaning = _MEANS[state_of(snapshot, one)]
    return ", ".join(parts) + (f": {meaning}" if meaning else "")


def _end(one: Credential, now: float) -> str:
    if one.expires_at is None:
        return "without an end"
    left = one.expires_at - now
    return f"ends in {_span(left)}" if left >= 0 else f"ended {_span(-left)} ago"


def _due(one: Credential) -> Optional[float]:
    return renewal_due(one) if one.writer and one.issued_at is not None and one.expires_at is not None else None


def _bar(one: Credential, now: float) -> str:
    start, end = one.issued_at or 0.0, one.expires_at or 0.0

    def place(moment: float) -> int:
        return max(0, min(_WIDTH, int((moment - start) / max(end - start, 1.0) * _WIDTH)))

    bar = ["#"] * place(now) + ["-"] * (_WIDTH - place(now))
    due = _due(one)
    if due is not None and start < due < end:
        bar[min(place(due), _WIDTH - 1)] = "|"
    return f"[{''.join(bar)}]"


def _span(seconds: float) -> str:
    """`3 h`, for people."""
    for unit, name in _UNITS:
        if abs(seconds) >= 2 * unit or (name == "min" and abs(seconds) >= unit):
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"

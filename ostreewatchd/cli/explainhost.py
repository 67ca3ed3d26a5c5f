# SPDX-License-Identifier: Apache-2.0
"""`explain host`: what the host is by now, with its mounts, and what is wrong with it. Nothing of it is ever owed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ostreewatchd.judge import RULES
from ostreewatchd.model import Exit, Finding, Snapshot
from ostreewatchd.report import words
from ostreewatchd.report.jsontext import json_text
from ostreewatchd.report.printable import printable


def run(snapshot: Snapshot, findings: Sequence[Finding], *, as_json: bool) -> int:
    """Print it. Always 0: what is wrong with the host changes no exit status."""
    mine = [one for one in findings if one.subject.kind == "host"]
    if as_json:
        print(json_text(as_object(snapshot, mine)))
        return Exit.NOTHING_OWED
    for line in explain(snapshot, mine):
        print(printable(line))
    return Exit.NOTHING_OWED


def as_object(snapshot: Snapshot, findings: Sequence[Finding]) -> dict[str, Any]:
    """What `--json` prints: the host, and each finding with its rule."""
    live, rules = snapshot.live, {rule.name: rule for rule in RULES}
    return {
        "host": {
            **msgspec.to_builtins(live.deployments),
            "usr_class": live.usr_class,
            "usr_overlay": live.usr_overlay,
            "usr_mount": live.usr_mount,
            "etc_mount": live.etc_mount,
            "live_is_not_booted": bool(live.besides_booted),
        },
        "explained": [
            {
                "finding": msgspec.to_builtins(one),
                "proves": rules[one.rule].proves,
                "source": rules[one.rule].source,
                "steps": [],
                "refusals": [],
            }
            for one in findings
        ],
    }


def explain(snapshot: Snapshot, findings: Sequence[Finding]) -> Iterator[str]:
    """The text, line by line."""
    live, rules = snapshot.live, {rule.name: rule for rule in RULES}
    names = live.deployments
    yield "host"
    yield f"  booted    {names.booted or '-'}"
    for path, name, mount in (
        ("/etc", names.etc, live.etc_mount),
        ("/usr", f"{names.usr or '-'} ({words.usr(live)})", live.usr_mount),
    ):
        yield f"  live {path} {name or '-'}"
        yield f"    its mount  {mount or 'not known'}"
    for line in (words.pending(live), words.not_booted(live)):
        if line:
            yield f"  {line}"
    if names.staged:
        yield f"  staged    {names.staged} (written at shutdown)"
    for one in findings:
        yield f"  {one.path}"
        for line in one.evidence:
            yield f"    mount of the {line}"
        yield f"  verdict  {one.verdict}, nothing due: {one.reason}"
        yield f"  rule     {one.rule}: {rules[one.rule].proves}"
        yield f"  source   {rules[one.rule].source}"
        yield f"  remedy   {one.remedy}"
    if not findings:
        yield "  nothing wrong"

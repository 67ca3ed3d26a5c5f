# SPDX-License-Identifier: Apache-2.0
"""Say why for one subject: both identities, the mounts, the rule, the step, and why nothing smaller or larger."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ostreewatchd.cli import explainhost
from ostreewatchd.cli.world import from_argument, json_argument, may_be_owed, see
from ostreewatchd.judge import RULES
from ostreewatchd.judge.rule import subject_of
from ostreewatchd.model import Exit, Finding, Plan, Refusal, Snapshot, Subject
from ostreewatchd.plan import LARGER, SMALLER, plan
from ostreewatchd.report import words
from ostreewatchd.report.jsontext import json_text
from ostreewatchd.report.printable import printable


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "subject", help="namespace/pod/container, a part of it, the start of a container's id, a unit, or `host`"
    )
    json_argument(parser)
    from_argument(parser)


def run(options: argparse.Namespace) -> int:
    config, snapshot, findings = see(options, deep=True)
    if not options.subject.strip("/"):
        print("ostreewatchctl: explain needs a subject: namespace/pod/container or a part of it", file=sys.stderr)
        return Exit.USAGE
    if options.subject == "host":
        return explainhost.run(snapshot, findings, as_json=options.json)
    mine = [finding for finding in findings if matches(finding.subject, options.subject)]
    if not mine:
        subjects = [*map(subject_of, snapshot.containers), *_units(snapshot)]
        known = sorted({str(one) for one in subjects} | {str(finding.subject) for finding in findings})
        if any(matches(one, options.subject) for one in subjects):
            fresh = (
                f"{options.subject}: all that it has of the host's tree is what the host has now: nothing to explain"
            )
            print(json_text(as_object((), Plan())) if options.json else printable(fresh))
            return Exit.NOTHING_OWED
        print(
            f"ostreewatchctl: no container with a piece of the host's tree matches {options.subject!r}",
            file=sys.stderr,
        )
        for one in known:
            print(f"  {printable(one)}", file=sys.stderr)
        return Exit.USAGE
    made = plan(snapshot, findings, config)
    if options.json:
        print(json_text(as_object(mine, made)))
    else:
        for line in explain(mine, made):
            print(printable(line))
    refused = any(True for finding in mine for _ in _refusals(finding, made))
    if refused or any(finding.owed for finding in mine):
        return Exit.OWED
    may_be = any(may_be_owed(snapshot, finding) for finding in mine)
    return Exit.COULD_NOT_KNOW if may_be else Exit.NOTHING_OWED


def _units(snapshot: Snapshot) -> Iterator[Subject]:
    runtime = snapshot.node_runtime
    for service in (runtime.service, runtime.kubelet) if runtime is not None else ():
        if service is not None:
            yield Subject(kind="unit", unit=service.unit)


def matches(subject: Subject, text: str) -> bool:
    return text in str(subject) or (len(text) >= 6 and subject.container_id.startswith(text))


def as_object(findings: Sequence[Finding], made: Plan) -> dict[str, Any]:
    """What `--json` prints: each finding with its rule, and with the steps and refusals for what is owed."""
    rules = {rule.name: rule for rule in RULES}
    return {
        "explained": [
            {
                "finding": msgspec.to_builtins(finding),
                "proves": rules[finding.rule].proves,
                "source": rules[finding.rule].source,
                "steps": [msgspec.to_builtins(one) for one in made.steps if one.subject == finding.subject],
                "would": [msgspec.to_builtins(one) for one in made.would if one.subject == finding.subject],
                "refusals": [msgspec.to_builtins(one) for one in _refusals(finding, made)],
            }
            for finding in findings
        ]
    }


def explain(findings: Iterable[Finding], made: Plan) -> Iterator[str]:
    """The text, line by line. Pure: other evidence, another text."""
    rules = {rule.name: rule for rule in RULES}
    for finding in findings:
        rule = rules[finding.rule]
        yield from _about(finding)
        for line in finding.evidence:
            yield f"    {line}" if finding.subject.kind == "unit" else f"    mount of the {line}"
        yield f"  verdict  {finding.verdict}, {'owed' if finding.owed else 'nothing due'}: {finding.reason}"
        yield f"  rule     {finding.rule}: {rule.proves}"
        yield f"  source   {rule.source}"
        yield f"  remedy   {finding.remedy}"
        yield from _step(finding, made)
        if finding.verdict == "stale":
            step = next((one for one in (*made.steps, *made.would) if one.subject == finding.subject), None)
            if step is not None or finding.subject.kind == "container":
                yield f"  smaller  {step.smaller if step else SMALLER}"
                yield f"  larger   {step.larger if step else LARGER}"


def _about(finding: Finding) -> Iterator[str]:
    subject = finding.subject
    if subject.kind != "container":
        yield str(subject)
        if finding.path:
            yield f"  {finding.path}"
        return
    yield f"{subject}  (container {subject.container_id[:12]}, pod UID {subject.pod_uid})"
    yield f"  {finding.path}, in the container {finding.inside}"
    yield f"    the container has  {words.identity(finding.actual)}"
    yield f"    the host has now   {words.identity(finding.expected)}"


def _step(finding: Finding, made: Plan) -> Iterator[str]:
    for step in (*made.steps, *made.would):
        if finding.owed and step.subject == finding.subject:
            how = f" (grace {step.grace} s)" if step.kind == "stop-container" else ""
            held = "" if step in made.steps else "held back: "
            yield f"  step     {held}{step.kind.replace('-', ' ')}{how}: {step.because}"
            if step.subject.kind == "unit":
                continue
            yield "           preStop hooks do not run: they are kubelet's, and kubelet is not asked"
    for refusal in _refusals(finding, made):
        at = f" ({words.when(refusal.ends_at)})" if refusal.ends_at is not None else ""
        yield f"  refused  {refusal.name}: {refusal.because}"
        yield f"           ends {refusal.ends}{at}"


def _refusals(finding: Finding, made: Plan) -> Iterator[Refusal]:
    """Those of its subject; and where its cure is due, those of the node."""
    for refusal in made.refusals:
        if refusal.subject == finding.subject or (refusal.subject is None and finding.owed):
            yield refusal

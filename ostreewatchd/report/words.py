# SPDX-License-Identifier: Apache-2.0
"""Findings, plans and states in words: the same words in the journal, in STATUS= and on the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Optional

from ostreewatchd.model import Finding, Live, PastAct, Problem, Refusal, Seen, Snapshot, Step, short_name
from ostreewatchd.report.printable import printable


def live(state: Live) -> str:
    names = state.deployments
    if not names.booted and not names.etc:
        return "no OSTree deployment (judging by identity alone)"
    text = f"live {short_name(names.etc or names.booted)}"
    if names.usr and names.etc and names.usr != names.etc:
        text += f" in /etc and {short_name(names.usr)} in /usr"
    if names.booted and names.booted != names.etc:
        text += f", booted {short_name(names.booted)}"
    if names.pending:
        text += f", pending {short_name(names.pending)}"
    return text


def identity(seen: Optional[Seen]) -> str:
    if seen is None:
        return "unknown"
    return f"{seen.dev}:{seen.ino}" + (f" ({short_name(seen.deployment)})" if seen.deployment else "")


def finding(one: Finding) -> str:
    word = "owed" if one.owed else ("noted" if one.verdict == "stale" else one.verdict)
    where = one.path if one.path == one.inside else f"{one.path} as {one.inside}"
    return printable(f"{word}: {one.subject}: {where}: {one.reason}")


def refusal(one: Refusal) -> str:
    who = f"{one.subject}: " if one.subject else ""
    return printable(f"{who}refused ({one.name}): {one.because}. Ends {one.ends}")


def step(one: Step) -> str:
    return printable(f"{one.kind.replace('-', ' ')} {one.subject} (grace {one.grace} s): {one.because}")


def when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))


def act(one: PastAct) -> str:
    outcome = f"{one.outcome}: {one.proof}" if one.outcome else "no outcome yet"
    return printable(f"{when(one.intent_at)}  switch {one.switch_id}  {one.step} {one.subject}  {outcome}")


def problem(one: Problem) -> str:
    return printable(f"not read: {one.where}: {one.what}")


def counts(findings: Iterable[Finding]) -> tuple[int, int, int]:
    """How many are owed, noted and unknown."""
    owed = noted = unknown = 0
    for one in findings:
        if one.owed:
            owed += 1
        elif one.verdict == "stale":
            noted += 1
        elif one.verdict == "unknown":
            unknown += 1
    return owed, noted, unknown


def summary(snapshot: Snapshot, findings: Sequence[Finding]) -> str:
    """One line on all: STATUS= of the watcher."""
    owed, noted, unknown = counts(findings)
    text = f"{live(snapshot.live)}; {snapshot.container_count} containers"
    text += f"; {owed} owed, {noted} noted" if owed or noted else "; nothing stale"
    text += f", {unknown} unknown" if unknown else ""
    return text + (f", {len(snapshot.problems)} not read" if snapshot.problems else "")

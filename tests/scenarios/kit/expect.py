# SPDX-License-Identifier: Apache-2.0
"""What a scenario expects, in few words, and how that is compared with what judge and plan say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ostreewatchd.model import Finding, Plan, Problem, Subject


class Expected(NamedTuple):
    """All that is found, done and refused: one more of anything is a failure, too."""

    findings: tuple[tuple[str, str, str, str, str], ...] = ()
    """`(rule, state, subject, path, phrase of the reason)`. State: owed, noted, unknown, wrong. Subject: the
    container's name, or `host`."""
    steps: tuple[str, ...] = ()
    """`stop-container calico-node`, in their order."""
    refusals: tuple[tuple[str, str, str], ...] = ()
    """`(name, subject, phrase)`; no subject: it holds for the node."""
    problems: tuple[str, ...] = ()
    """Phrases of what could not be read."""
    status: int | None = None
    """`plan`'s exit status. None: 1 where something is owed or refused, else 0."""

    @property
    def exit_status(self) -> int:
        owed = any("owed" in one[1] for one in self.findings)
        return self.status if self.status is not None else int(owed or bool(self.refusals))


def short(subject: Subject | None) -> str:
    """A subject as scenarios name it."""
    if subject is None:
        return ""
    return (subject.container or "nameless") if subject.kind == "container" else str(subject)


def state(finding: Finding) -> str:
    """Verdict and whether a cure is due, as one word."""
    if finding.verdict == "stale":
        return "owed" if finding.owed else "noted"
    return f"{finding.verdict}, owed" if finding.owed else finding.verdict


def differences(
    expected: Expected, findings: Iterable[Finding], plan: Plan, problems: Iterable[Problem] = ()
) -> list[str]:
    """What is not as expected, in words; nothing: all is."""
    found = [((one.rule, state(one), short(one.subject), one.path), one.reason) for one in findings]
    wrong = _compare("finding", [(one[:4], one[4]) for one in expected.findings], found)
    steps = tuple(f"{one.kind} {short(one.subject)}" for one in plan.steps)
    if steps != expected.steps:
        wrong.append(f"steps are {steps}, expected {expected.steps}")
    refused = [((one.name, short(one.subject)), one.because) for one in plan.refusals]
    wrong += _compare("refusal", [(one[:2], one[2]) for one in expected.refusals], refused)
    said = [((), f"{one.where}: {one.what}") for one in problems]
    return wrong + _compare("problem", [((), one) for one in expected.problems], said)


def _compare(
    what: str, expected: Iterable[tuple[tuple[str, ...], str]], found: Iterable[tuple[tuple[str, ...], str]]
) -> list[str]:
    left, wrong = list(found), []
    for key, phrase in expected:
        fits = next((one for one in left if one[0] == key and phrase in one[1]), None)
        if fits is None:
            wrong.append(f"no {what} {key} that says {phrase!r}")
        else:
            left.remove(fits)
    return wrong + [f"{what} not expected: {key}: {text}" for key, text in left]

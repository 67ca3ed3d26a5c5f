# SPDX-License-Identifier: Apache-2.0
"""The plan: what is owed, less what is refused, in the platform's order.

A refusal that holds for the node stops everything; one that holds for a subject stops only that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Union

from ostreewatchd.model import Finding, Plan, Refusal, Settings, Snapshot, Step, Subject
from ostreewatchd.plan import breaker, budget, hopeless, ladder, node, units
from ostreewatchd.plan.subjects import step_or_refusal

_SYSTEM_NAMESPACES = ("kube-system", "calico-system", "tigera-operator")


def plan(snapshot: Snapshot, findings: Iterable[Finding], settings: Settings) -> Plan:
    """What to do now about what is owed. Empty: nothing is owed, and nothing would be but for what is missing."""
    findings = tuple(findings)
    lost = tuple(hopeless.refusals(snapshot, findings))
    owed = [finding for finding in findings if finding.owed and finding.verdict == "stale"]
    if not owed:
        return Plan(refusals=lost)
    containers = [finding for finding in owed if finding.subject.kind == "container"]
    outcomes: list[Union[Step, Refusal]] = [step_or_refusal(snapshot, mine) for mine in _by_subject(containers)]
    steps = sorted((one for one in outcomes if isinstance(one, Step)), key=lambda one: _rank(snapshot.writers, one))
    # After the containers: what the restart of a unit would break off, a stop of a container may be the cause of.
    of_units = tuple(units.steps_and_refusals(snapshot, findings, settings))
    steps += [one for one in of_units if isinstance(one, Step)]
    refusals = [one for one in (*outcomes, *of_units) if isinstance(one, Refusal)]
    along = {unit for one in of_units if isinstance(one, Step) for unit in one.along}
    planned = {one.subject for one in of_units} | {Subject(kind="unit", unit=unit) for unit in along}
    others = [finding for finding in owed if finding.subject.kind == "unit" and finding.subject not in planned]
    refusals += [hopeless.of_unit(finding) for finding in others]
    let, held = breaker.hold(snapshot, findings, steps)
    whole_node = (
        *node.refusals(snapshot, settings),
        *(one for one in held if one.subject is None),
        *(one for one in refusals if one.name == ladder.MAY_STILL_COME),
    )
    if not any(one.subject is None for one in held):
        steps = let
    steps, spent = budget.limit(snapshot, steps, settings)
    observed = [_only_observed(step) for step in steps] if settings.mode == "observe" else []
    if whole_node:
        # What holds for one subject may be another thing once the node is as it should be; an order stays one.
        return Plan(refusals=(*whole_node, *observed, *lost), would=tuple(steps))
    refusals += [*held, *spent, *observed]
    if observed:
        return Plan(refusals=(*refusals, *lost), would=tuple(steps))
    return Plan(steps=tuple(steps), refusals=(*refusals, *lost))


def _by_subject(owed: Sequence[Finding]) -> Iterable[list[Finding]]:
    for key in dict.fromkeys(finding.subject.key for finding in owed):
        yield [finding for finding in owed if finding.subject.key == key]


def _rank(writers: Sequence[str], step: Step) -> tuple[bool, int, str]:
    """The platform's order. A name alone proves nothing, so whoever is in a namespace of the system's goes first."""
    subject = step.subject
    place = writers.index(subject.container) if subject.container in writers else len(writers)
    return (not _is_systems(subject), place, str(subject))


def _is_systems(subject: Subject) -> bool:
    return subject.namespace in _SYSTEM_NAMESPACES or subject.namespace.startswith("openshift-")


def _only_observed(step: Step) -> Refusal:
    return Refusal(
        name="mode-observe",
        because=f"Mode=observe: would {step.kind.replace('-', ' ')}",
        ends="when Mode=heal is configured",
        subject=step.subject,
    )

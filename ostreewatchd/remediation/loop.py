# SPDX-License-Identifier: Apache-2.0
"""Look, act, look again, until nothing is owed or all that is left is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

import msgspec

from ostreewatchd import settle
from ostreewatchd.judge import judge
from ostreewatchd.ledger import Ledger, LedgerError
from ostreewatchd.model import Exit, Finding, History, Plan, Refusal, Settings, Snapshot, Switch
from ostreewatchd.plan import plan as make_plan
from ostreewatchd.remediation.cure import Curer
from ostreewatchd.remediation.outcome import Outcome
from ostreewatchd.remediation.units import UnitCurer
from ostreewatchd.remediation.world import World
from ostreewatchd.report.journal import Journal

_MAX_ROUNDS = 300
_MAX_TRIES = 3


class Result(NamedTuple):
    """How a remediation ended."""

    status: Exit
    summary: str
    plan: Plan
    ledger_problem: str = ""
    """Why the ledger could not be used, and so nothing more was done."""


class Did(NamedTuple):
    """What a run has done so far."""

    stopped: int = 0
    cured: int = 0
    failed: frozenset[tuple[str, str]] = frozenset()
    """Subjects of which the last proof did not come."""

    def and_then(self, key: tuple[str, str], outcome: Outcome) -> Did:
        failed = self.failed if outcome.name in ("", "not-done") else self.failed - {key}
        return Did(
            self.stopped + outcome.stopped,
            self.cured + (outcome.name == "cured"),
            failed | {key} if outcome.name == "not-cured" else failed,
        )

    def __str__(self) -> str:
        if not self.stopped:
            return "nothing restarted"
        if self.stopped == self.cured:
            return f"{self.cured} restarted and cured"
        return f"{self.stopped} restarted, {self.cured} of them cured"


def remediate(world: World, ledger: Ledger, journal: Journal, config: Settings) -> Result:
    """Bounded: each round does a step, or is one of a few that could not. Raises HostGone."""
    curer, of_units = Curer(world, ledger, journal, config), UnitCurer(world, ledger, journal, config)
    did = Did()
    tries: Counter[tuple[str, str]] = Counter()
    could_not: dict[tuple[str, str], Refusal] = {}
    try:
        known = ledger.history().switch
        fingerprint = known.fingerprint if known is not None else ""
        for _ in range(_MAX_ROUNDS):
            snapshot = world.look(ledger.history(), deep=True)
            if snapshot.torn:
                world.sleep(1.0)
                continue
            if fingerprint not in ("", snapshot.live.fingerprint):
                # A new switch, of which more may follow: whoever asked may have asked before it.
                fingerprint = snapshot.live.fingerprint
                world.sleep(config.settle)
                continue
            fingerprint = snapshot.live.fingerprint
            findings = judge(snapshot)
            switch = _record_switch(ledger, snapshot, config)
            # With the switch that was just recorded: an act of an older one is over and waits for no proof.
            snapshot = msgspec.structs.replace(snapshot, history=ledger.history())
            resumed = [
                (act, (of_units if act.subject.kind == "unit" else curer).resume(act, snapshot))
                for act in snapshot.history.acts
                if not act.outcome
            ]
            for act, outcome in resumed:
                did = did.and_then(act.subject.key, outcome)
            if any(outcome.name for _, outcome in resumed):
                continue  # Time has passed: look again.
            plan = _without(make_plan(snapshot, findings, config), could_not)
            if not plan.steps or switch is None:
                return _result(plan, findings, did)
            step = plan.steps[0]
            outcome = (of_units if step.subject.kind == "unit" else curer).cure(step, snapshot, switch)
            did = did.and_then(step.subject.key, outcome)
            if not outcome.stopped:
                tries[step.subject.key] += 1
                if tries[step.subject.key] >= _MAX_TRIES:
                    could_not[step.subject.key] = Refusal(
                        name="stop-failed", because=outcome.text, ends="when it can be done", subject=step.subject
                    )
                world.sleep(1.0)
    except LedgerError as error:
        return without_ledger(world, config, str(error), did)
    return Result(Exit.COULD_NOT_KNOW, f"{did}; not done after {_MAX_ROUNDS} rounds", Plan())


def without_ledger(world: World, config: Settings, problem: str, did: Did) -> Result:
    """No ledger, no act: what is owed is told, with that as the refusal. Raises HostGone."""
    snapshot = world.look(History(problem=problem), deep=True)
    findings = judge(snapshot)
    result = _result(make_plan(snapshot, findings, config), findings, did)
    return result._replace(ledger_problem=problem)


def _without(plan: Plan, could_not: Mapping[tuple[str, str], Refusal]) -> Plan:
    """The plan less the steps that could not be done in this run: the others go on."""
    return Plan(
        steps=tuple(step for step in plan.steps if step.subject.key not in could_not),
        refusals=(
            *plan.refusals,
            *(could_not[step.subject.key] for step in plan.steps if step.subject.key in could_not),
        ),
        would=plan.would,
    )


def _record_switch(ledger: Ledger, snapshot: Snapshot, config: Settings) -> Optional[Switch]:
    """The switch that the live state is, with an id of its own; None while one is under way."""
    if settle.in_progress(snapshot.flags, complete=settle.complete(snapshot), cap=config.settle_cap):
        return None
    names = snapshot.live.deployments
    return ledger.record_switch(
        snapshot.live.fingerprint,
        snapshot.node.boot_id,
        names.etc or names.booted,
        snapshot.taken_boottime,
        str(snapshot.ostree.root or ""),
    )


def _result(plan: Plan, findings: Sequence[Finding], did: Did) -> Result:
    owed = len({finding.subject.key for finding in findings if finding.owed})
    if did.failed:
        return Result(Exit.NOT_CURED, f"{did}; a restart did not cure", plan)
    if owed:
        return Result(Exit.OWED, f"{did}; {owed} owed, {len(plan.refusals)} refused", plan)
    if plan.refusals:
        return Result(Exit.OWED, f"{did}; nothing known to be owed, {len(plan.refusals)} refused", plan)
    return Result(Exit.NOTHING_OWED, f"{did}; nothing owed", plan)

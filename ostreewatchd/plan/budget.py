# SPDX-License-Identifier: Apache-2.0
"""How many restarts a switch and an hour may cost: what holds when every other guard has a fault.

Counted from the ledger: whatever may have stopped something counts. In this boot by CLOCK_BOOTTIME; an act of an
earlier boot is at least as old as this one is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ostreewatchd.model import STOPPED_NOTHING, PastAct, Refusal, Settings, Snapshot, Step
from ostreewatchd.plan.clocks import apart
from ostreewatchd.plan.moment import current

_HOUR = 3600.0


def limit(snapshot: Snapshot, steps: Sequence[Step], settings: Settings) -> tuple[list[Step], list[Refusal]]:
    """The steps that are within the budget, and a refusal for each of the others. To take up an act that is open
    costs nothing: it was counted when it was intended."""
    acts = [act for act in snapshot.history.acts if act.outcome not in STOPPED_NOTHING]
    switch = current(snapshot)
    of_switch = [act for act in acts if switch is not None and act.switch_id == switch.id]
    of_hour = [act for act in acts if _is_recent(snapshot, act)]
    begun = {act.subject.container_id for act in of_switch if not act.outcome}
    within: list[Step] = []
    refused: list[Refusal] = []
    new = 0
    for step in steps:
        if step.subject.container_id not in begun:
            if len(of_switch) + new >= settings.per_switch:
                refused.append(_of_switch(step, settings))
                continue
            if len(of_hour) + new >= settings.per_hour:
                refused.append(_of_hour(step, of_hour, settings))
                continue
            new += 1
        within.append(step)
    return within, refused


def _is_recent(snapshot: Snapshot, act: PastAct) -> bool:
    if act.boot_id == snapshot.node.boot_id:
        return snapshot.taken_boottime - act.intent_boottime < _HOUR
    # Of an earlier boot, or of a version that did not say. No clock that was set in this boot makes it older.
    now = snapshot.taken_boottime + min(apart(snapshot))
    return now - act.intent_at < _HOUR and (not act.boot_id or snapshot.taken_boottime < _HOUR)


def _of_switch(step: Step, settings: Settings) -> Refusal:
    return Refusal(
        name="budget",
        because=f"RestartsPerSwitch={settings.per_switch} are spent",
        ends="with the next switch, or when the setting is raised",
        subject=step.subject,
        alarm=True,
    )


def _of_hour(step: Step, acts: Iterable[PastAct], settings: Settings) -> Refusal:
    return Refusal(
        name="budget",
        because=f"RestartsPerHour={settings.per_hour} are spent",
        ends="when the first of them is an hour old",
        ends_at=min((act.intent_at for act in acts), default=0.0) + _HOUR if settings.per_hour else None,
        subject=step.subject,
    )

# SPDX-License-Identifier: Apache-2.0
"""The step for a unit that is behind, or the refusals: the runtime first, and kubelet only where it is not restarted
along with it.

Once for what has changed: a start that a restart was asked for already is not ended by another one, and one after
which nothing has changed is not repeated. A runtime is restarted on one node at a time: with the cluster's lock, or
where somebody has said that none is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Optional, Union

from ostreewatchd.model import (
    STOPPED_NOTHING,
    Change,
    Decision,
    Finding,
    PastAct,
    Refusal,
    Runtime,
    Service,
    Settings,
    Snapshot,
    Step,
    Subject,
)
from ostreewatchd.plan.moment import current
from ostreewatchd.plan.runtime import decide

_WATCH = "runtime-watch-stale"
ALLOWANCE = 60.0
"""Seconds that a runtime with many pods takes to answer, on top of ProofSec."""
_AGAIN = "when something of it changes, or by a person's restart"


def steps_and_refusals(
    snapshot: Snapshot, findings: Iterable[Finding], settings: Settings
) -> Iterator[Union[Step, Refusal]]:
    """For the owed findings about units."""
    runtime = snapshot.node_runtime
    if runtime is None:
        return
    changes: dict[str, tuple[Change, ...]] = {}
    for one in findings:
        if one.owed and one.changes:
            changes[one.subject.unit] = (*changes.get(one.subject.unit, ()), *one.changes)
    kubelet = runtime.kubelet.unit if runtime.kubelet is not None else ""
    made = decide(runtime, changes.get(runtime.service.unit, ()), changes.get(kubelet, ()))
    for decision in made:
        if decision.action == "nothing" or decision.unit not in changes:
            continue
        if decision.unit == kubelet and made[0].action == "restart" and runtime.kubelet_goes_along:
            continue  # It starts anew with the runtime.
        service = runtime.service if decision.unit == runtime.service.unit else runtime.kubelet
        if service is not None:
            yield from _step_or_refusals(snapshot, runtime, service, decision, settings)


def _step_or_refusals(
    snapshot: Snapshot, runtime: Runtime, service: Service, decision: Decision, settings: Settings
) -> Iterator[Union[Step, Refusal]]:
    subject = Subject(kind="unit", unit=decision.unit)
    why = "; ".join(one.because for one in decision.because)
    unasked = _unasked(snapshot, service, decision)
    refusals = [*_of(subject, decision), *unasked, *_lock(decision, subject, settings)]
    if decision.action == "drain-and-reboot":
        # Only recommended, so that who reads it need not know what would be in the way of a restart.
        yield Refusal(
            name="needs-drain-and-reboot", because=why, ends="when the drained node was rebooted", subject=subject,
            alarm=True,
        )  # fmt: skip
        return
    if refusals:
        yield from refusals
        return
    reload = decision.action == "reload"
    yield Step(
        kind="reload-unit" if reload else "restart-unit",
        subject=subject,
        sandbox_id="",
        attempt=None,
        grace=0,
        allowance=ALLOWANCE,
        because=why,
        smaller=decision.smaller,
        larger=decision.larger,
        invocation=service.invocation,
        daemon_reload=decision.daemon_reload,
        along=decision.along,
        kubelet=runtime.kubelet.unit if runtime.kubelet is not None and not reload else "",
    )


def _of(subject: Subject, decision: Decision) -> Iterator[Refusal]:
    for one in decision.refusals:
        yield Refusal(
            name=one.name, because=one.because, ends=one.ends, ends_at=one.ends_at, subject=subject, alarm=one.alarm
        )


def _lock(decision: Decision, subject: Subject, settings: Settings) -> Iterator[Refusal]:
    """A reload ends nothing; yet who has not said that units may be touched does not expect one either. No alarm: a
    node on which nobody has said so is told what is behind, and that is all."""
    if decision.action in ("restart", "reload") and settings.lock != "none":
        because = f"a {decision.action} is done on one node at a time, and no lock is configured that sees to that"
        ends = "with Lock=none, where nobody else restarts nodes"
        yield Refusal(name="no-lock", because=because, ends=ends, subject=subject)


def _unasked(snapshot: Snapshot, service: Service, decision: Decision) -> Iterator[Refusal]:
    """Why it is not asked for once more. An act that is open for this very start is taken up again."""
    subject = Subject(kind="unit", unit=decision.unit)
    if not service.invocation:
        because = "systemd does not say which start this is, so another one could not be told from it"
        yield Refusal(name="unit-unknown", because=because, ends="when systemd answers", subject=subject)
        return
    last = _last(snapshot, subject)
    if last is None or (not last.outcome and last.invocation == service.invocation):
        return
    if last.invocation == service.invocation and last.step == "restart-unit":
        because = f"its restart was asked for (act {last.id}: {last.outcome}: {last.proof}) and this start is the same"
    elif (service.changed_at or 0.0) <= last.intent_at and not _moved_since(snapshot, decision, last):
        because = f"nothing of it has changed since act {last.id} ({last.outcome}), and it is behind again"
    else:
        return
    yield Refusal(name="already-restarted", because=because, ends=_AGAIN, subject=subject, alarm=True)


def _moved_since(snapshot: Snapshot, decision: Decision, last: PastAct) -> bool:
    """Whether a switch took from it what it watches, after that act: nothing of its own need have changed."""
    switch = current(snapshot)
    lost = any(one.rule == _WATCH for one in decision.because)
    return lost and switch is not None and switch.id != last.switch_id


def _last(snapshot: Snapshot, subject: Subject) -> Optional[PastAct]:
    boot = snapshot.node.boot_id
    acts = [one for one in snapshot.history.acts if one.subject.key == subject.key and one.boot_id == boot]
    return next((one for one in reversed(acts) if one.outcome not in STOPPED_NOTHING), None)

# SPDX-License-Identifier: Apache-2.0
"""The breaker: one failed proof stops further restarts of that switch, for what did not help one may not help
another; until the container is seen fresh, or its pod is gone. All that it lets through is the next rung of the
ladder, for the very subject that was not cured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Optional

from ostreewatchd.model import Finding, PastAct, Refusal, Snapshot, Step
from ostreewatchd.plan.moment import current
from ostreewatchd.plan.subjects import BY_HAND


def hold(
    snapshot: Snapshot, findings: Iterable[Finding], steps: Sequence[Step]
) -> tuple[list[Step], tuple[Refusal, ...]]:
    """The steps that may be done, and the refusals: one for the node, or one for each other subject that waits for
    the next rung."""
    broken = _not_cured(snapshot, findings)
    if not broken:
        return list(steps), ()
    climbing = [step for step in steps if step.kind == "stop-sandbox" and step.subject.key in broken]
    if broken.keys() - {step.subject.key for step in climbing}:
        stuck = next(act for key, act in broken.items() if key not in {step.subject.key for step in climbing})
        return [], (_refusal(stuck),)
    first = next(iter(broken.values()))
    return climbing, tuple(_refusal(first, step) for step in steps if step not in climbing)


def _refusal(act: PastAct, step: Optional[Step] = None) -> Refusal:
    return Refusal(
        name="breaker",
        because=f"switch {act.switch_id}: restarting {act.subject} did not cure it ({act.proof})",
        ends=BY_HAND,
        subject=step.subject if step else None,
        alarm=True,
    )


def _not_cured(snapshot: Snapshot, findings: Iterable[Finding]) -> dict[tuple[str, str], PastAct]:
    """The last failed act of the current switch, by subject, where it is not known to be over. It is not for a
    container of which it cannot be told what it shows (DESIGN invariant 4)."""
    switch = current(snapshot)
    stale = {finding.subject.key for finding in findings if finding.owed or _is_unknown(snapshot, finding)}
    found: dict[tuple[str, str], PastAct] = {}
    for act in snapshot.history.acts if switch else ():
        if switch is None or act.switch_id != switch.id or act.outcome != "not-cured":
            continue
        runs = any((one.pod.uid, one.name) == act.subject.key for one in snapshot.containers)
        if act.subject.key in stale or not (runs or _is_gone(snapshot, act)):
            found[act.subject.key] = act
    return found


def _is_unknown(snapshot: Snapshot, finding: Finding) -> bool:
    return finding.verdict == "unknown" and bool(snapshot.cni_directory_of(finding.path))


def _is_gone(snapshot: Snapshot, act: PastAct) -> bool:
    """Of a pod whose sandbox was stopped an ended one is all that there is until kubelet makes another."""
    runtime = snapshot.runtime
    if runtime is None or runtime.problem:
        return False
    if act.step == "stop-sandbox":
        return not runtime.has_pod(act.subject.pod_uid)
    return not runtime.has_ready_pod(act.subject.pod_uid)

# SPDX-License-Identifier: Apache-2.0
"""One at a time, across switches too: what was stopped in this boot and does not run again holds all others back.

Of the live switch, proof and breaker see to that. What was stopped for an earlier one has no proof any more, or has
failed it, and is down all the same until kubelet starts it: for seconds, for its back-off, or for good.

There is no time after which the others go on: where kubelet has not started one, it may not start the next either,
and a stale token writer is good for hours, a stopped one for nothing. But from then on it is an alarm."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.model import STOPPED_NOTHING, PastAct, Refusal, RuntimeView, Settings, Snapshot
from ostreewatchd.plan.backoff import LONGEST_WAIT
from ostreewatchd.plan.moment import current

NEW_SANDBOX = 60.0
"""Seconds that a new sandbox, its network and its init containers take, on top of ProofSec."""
_ENDED = STOPPED_NOTHING | {"cured", "pod-gone"}
"""Outcomes after which nothing of it is down, or it is not ours to wait for."""


def not_back(snapshot: Snapshot, settings: Settings) -> Iterator[Refusal]:
    """A refusal for each container that was stopped and is not there again."""
    runtime = snapshot.runtime
    if runtime is None or runtime.problem:
        return  # Then nothing is stopped anyway.
    last = {act.subject.key: act for act in snapshot.history.acts if act.boot_id == snapshot.node.boot_id}
    for act in last.values():
        if act.subject.kind == "unit" or act.outcome in _ENDED or _is_breakers(snapshot, act):
            continue
        if not _is_down(snapshot, runtime, act):
            continue
        age = snapshot.taken_boottime - act.intent_boottime
        allowed = settings.proof + LONGEST_WAIT + (NEW_SANDBOX if act.step == "stop-sandbox" else 0.0)
        overdue = age > allowed or act.outcome == "not-cured"
        yield Refusal(
            name="waits-for-restart",
            because=f"{act.subject} was stopped (act {act.id}, {_clock(act.intent_at)}; {act.outcome or 'no outcome'})"
            " and does not run again" + (", for longer than kubelet should need" if overdue else ""),
            ends="when kubelet has started it again, or its pod is gone",
            alarm=overdue,
        )


def _is_breakers(snapshot: Snapshot, act: PastAct) -> bool:
    switch = current(snapshot)
    return act.outcome == "not-cured" and switch is not None and act.switch_id == switch.id


def _is_down(snapshot: Snapshot, runtime: RuntimeView, act: PastAct) -> bool:
    """It does not run, and its pod is there. After a sandbox stop kubelet may still have to make another."""
    if any((one.pod.uid, one.name) == act.subject.key for one in snapshot.containers):
        return False
    uid = act.subject.pod_uid
    sandboxes = {pod.sandbox_id for pod in runtime.pods if pod.uid == uid}
    if any(one.running and one.name == act.subject.container and one.sandbox_id in sandboxes
           for one in runtime.containers):  # fmt: skip
        return False  # It holds nothing of the host's tree now.
    return runtime.has_pod(uid) if act.step == "stop-sandbox" else runtime.has_ready_pod(uid)


def _clock(moment: float) -> str:
    seconds = int(moment) % 86400
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d} UTC"

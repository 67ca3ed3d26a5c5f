# SPDX-License-Identifier: Apache-2.0
"""Each pod that was Ready is Ready again, none fails that did not, and those that the node needs are well.

A kubelet that was restarted shows the old Ready until it has synced, then False until the first probes: so these count
only together with kubelet-syncs, over the whole window. Without a record from before, what was Ready before is told by
when the condition changed: a pod that has not been Ready since before the restart is not waited for.

Sources: kubernetes#100277 and KEP-4781 (readiness after a restart of kubelet), kubernetes#118559
(UnexpectedAdmissionError); sandboxed-containers-operator#1349 (ImagePullBackOff and CrashLoopBackOff)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Optional

from ostreewatchd.judge.recovery.row import Moment, absent, bad, good, named, old, unseen
from ostreewatchd.model import PodSeen, Row, Sample

READY = "pods-ready"
WELL = "pods-well"
CRITICAL = "critical-pods"
FAILING = frozenset({
    "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName",
    "CreateContainerError", "CreateContainerConfigError", "RunContainerError",
})  # fmt: skip
REFUSED = frozenset({"UnexpectedAdmissionError"})


def ready(moment: Moment) -> Iterator[Row]:
    """All that were, and those that came since."""
    pods = moment.sample.api.pods
    if pods is None:
        yield _none(READY, moment)
        return
    down = [pod for pod in pods if _must_be_ready(moment, pod) and not pod.ready]
    lost = [pod for pod in pods if pod.phase == "Failed" and _was_ready(moment.before, pod.uid)]
    if moment.sample.api.asked <= moment.of_kubelet:
        yield old(READY, "its pods were asked for before the restart")
    elif down or lost:
        yield bad(READY, f"not Ready: {named([*down, *lost])}")
    else:
        yield good(READY, f"{sum(1 for pod in pods if pod.ready)} of {len(pods)} pods are Ready, all that were")


def well(moment: Moment) -> Iterator[Row]:
    """None is refused, waits for its image or starts again and again that did not before; none is restarted
    meanwhile."""
    pods = moment.sample.api.pods
    if pods is None:
        yield _none(WELL, moment)
        return
    before = _by_uid(moment.before)
    last = _by_uid(moment.last)
    failing = [f"{pod} ({reason})" for pod in pods for reason in _fails(pod) if _is_new(moment, pod, reason)]
    growing = [pod for pod in pods if pod.uid in last and pod.restarts > last[pod.uid].restarts]
    if moment.sample.api.asked <= moment.of_kubelet:
        yield old(WELL, "its pods were asked for before the restart")
    elif failing:
        yield bad(WELL, f"failing since the restart: {named(failing)}")
    elif growing:
        yield bad(WELL, f"restarted meanwhile: {named(growing)}")
    else:
        yield good(WELL, "none fails that did not before" if before else "none fails")


def critical(moment: Moment) -> Iterator[Row]:
    """Those of priority class system-node-critical are Ready, whatever they were before: without them no other is."""
    pods = moment.sample.api.pods
    if pods is None:
        yield _none(CRITICAL, moment)
        return
    all_critical = [pod for pod in pods if pod.critical and not pod.going]
    down = [pod for pod in all_critical if not pod.ready]
    if moment.sample.api.asked <= moment.of_kubelet:
        yield old(CRITICAL, "its pods were asked for before the restart")
    elif down:
        yield bad(CRITICAL, f"not Ready, and the node needs it: {named(down)}")
    else:
        yield good(CRITICAL, f"all {len(all_critical)} that the node needs are Ready")


def not_waited_for(moment: Moment) -> list[PodSeen]:
    """Pods that are not Ready and were not before the restart."""
    return [
        pod
        for pod in moment.sample.api.pods or ()
        if not pod.ready and not pod.ended and not pod.going and not _must_be_ready(moment, pod)
    ]


def _none(name: str, moment: Moment) -> Row:
    api = moment.sample.api
    return absent(name, api.problem) if api.problem else unseen(name, api.unseen or "nobody has asked")


def _must_be_ready(moment: Moment, pod: PodSeen) -> bool:
    if pod.ended or pod.going:
        return False
    before = _by_uid(moment.before).get(pod.uid)
    if before is not None:
        return bool(before.ready)
    if pod.ready_changed_wall is None:
        return True
    # A condition's time has whole seconds.
    return moment.sample.moment(pod.ready_changed_wall) + 1.0 > moment.recovery.since


def _was_ready(before: Optional[Sample], uid: str) -> bool:
    pod = _by_uid(before).get(uid)
    return pod is not None and bool(pod.ready)


def _fails(pod: PodSeen) -> Sequence[str]:
    if pod.going:
        return ()
    return [reason for reason in dict.fromkeys((pod.reason, *pod.waiting)) if reason in FAILING | REFUSED]


def _is_new(moment: Moment, pod: PodSeen, reason: str) -> bool:
    before = _by_uid(moment.before)
    if pod.uid in before:
        return reason not in _fails(before[pod.uid])
    if pod.ready_changed_wall is None:
        return True
    return moment.sample.moment(pod.ready_changed_wall) + 1.0 > moment.recovery.since


def _by_uid(sample: Optional[Sample]) -> dict[str, PodSeen]:
    return {pod.uid: pod for pod in sample.api.pods or ()} if sample is not None else {}

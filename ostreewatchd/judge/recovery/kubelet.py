# SPDX-License-Identifier: Apache-2.0
"""kubelet is healthy, and really syncs.

healthz says ok before the sync loop has run once, and for minutes after it has stopped. That it syncs is told by what
it sees of the runtime at the moment, or by when it last looked through the containers (PLEG), which is unhealthy after
three minutes: a node that was well after 5 s may not be after 185 s (kubernetes#77728).

Source: kubernetes pkg/kubelet/server/server.go (syncLoopHealthCheck), pkg/kubelet/pleg/generic.go
(relistThreshold)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.recovery.row import Moment, absent, bad, good, named, old, unseen
from ostreewatchd.model import Row

HEALTH = "kubelet-health"
SYNCS = "kubelet-syncs"
PLEG_STALE = 180.0


def health(moment: Moment) -> Iterator[Row]:
    """10248 /healthz, and 10250 /healthz where that may be asked."""
    api = moment.sample.api
    if api.health_problem or api.healthy is False:
        yield bad(HEALTH, api.health_problem or "healthz does not say ok")
    elif api.api_healthy is False:
        yield bad(HEALTH, "healthz of its API does not say ok")
    elif api.healthy is None:
        yield unseen(HEALTH, "its healthz is turned off (healthzPort 0)")
    elif api.asked <= moment.of_kubelet:
        yield old(HEALTH, "healthz was asked before the restart")
    else:
        yield good(HEALTH, "healthz says ok")


def syncs(moment: Moment) -> Iterator[Row]:
    """It sees the pods that it is to run, or has looked through the runtime's containers since the restart."""
    api, sample = moment.sample.api, moment.sample
    looked = sample.moment(api.pleg_wall) if api.pleg_wall is not None else None
    if looked is not None and sample.at - looked > PLEG_STALE:
        yield bad(SYNCS, f"kubelet has not looked at its containers for {sample.at - looked:.0f} s: PLEG is unhealthy")
        return
    if looked is not None and looked > moment.of_kubelet:
        yield good(SYNCS, f"kubelet looked at its containers {max(0.0, sample.at - looked):.0f} s ago")
        return
    if api.pods is None or api.running is None:
        if looked is not None:
            yield old(SYNCS, "kubelet has not looked at its containers since the restart")
        else:
            yield absent(SYNCS, api.problem) if api.problem else unseen(SYNCS, api.unseen or "nobody has asked")
        return
    wanted = {pod.uid: pod for pod in api.pods if not pod.ended and not pod.going}
    known = {pod.uid for pod in api.pods}
    missing = [pod for uid, pod in wanted.items() if uid not in api.running]
    if api.asked <= moment.of_kubelet:
        yield old(SYNCS, "its pods were asked for before the restart")
    elif missing:
        yield bad(SYNCS, f"kubelet is to run {named(missing)}, and does not see it run")
    elif set(api.running) - known:
        yield bad(SYNCS, f"kubelet sees pods run that it is not to run: {named(set(api.running) - known)}")
    else:
        yield good(SYNCS, f"kubelet sees all {len(wanted)} pods that it is to run")

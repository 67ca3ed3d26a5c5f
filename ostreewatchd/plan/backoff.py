# SPDX-License-Identifier: Apache-2.0
"""How long kubelet would wait before it starts a container again that is stopped now.

The first restart is at once. From then on kubelet keeps a delay a container: 10 s, doubled with each further restart
up to 5 min, counted from the end of the container, and forgotten if that comes more than 10 min after the restart
before. Source: kubernetes pkg/kubelet (MaxContainerBackOff; kuberuntime_manager.go doBackOff), client-go
util/flowcontrol/backoff.go; kubernetes#133472. A kubelet that was restarted has forgotten all of them: what is told
here is the most that it can be."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.model import Container, RuntimeContainer, Snapshot

FORGOTTEN_AFTER = 600.0
LONGEST_WAIT = 60.0
"""Seconds: a token writer that is down for longer is worse than one that is stale a little longer."""
_FIRST, _LAST = 10.0, 300.0
_ROUNDING = 1.0


def wait(snapshot: Snapshot, container: Container) -> float:
    """Seconds at the most. The age is by CLOCK_BOOTTIME, which nobody sets."""
    mine = find(snapshot, container)
    if mine is None or mine.attempt == 0 or snapshot.taken_boottime - container.started_boottime > FORGOTTEN_AFTER:
        return 0.0
    most = min(_LAST, _FIRST * 2.0 ** min(mine.attempt - 1, 10))
    before = _before(snapshot, container, mine)
    if before is None or before.finished_at is None or before.created_at is None or mine.created_at is None:
        return most
    if before.finished_at - before.created_at > FORGOTTEN_AFTER:
        return min(most, _FIRST)
    waited = mine.created_at - before.finished_at
    if waited < 0:
        return most  # The clock was set back in between.
    # It waited for the whole of the delay of then: by the wall's clock, which is kubelet's for that.
    delay = _FIRST
    while delay * 2 <= waited + _ROUNDING and delay < _LAST:
        delay *= 2
    return min(most, _FIRST if waited + _ROUNDING < _FIRST else delay * 2, _LAST)


def find(snapshot: Snapshot, container: Container) -> Optional[RuntimeContainer]:
    """The container as the runtime lists it."""
    listed = snapshot.runtime.containers if snapshot.runtime else ()
    return next((one for one in listed if one.id == container.id), None)


def _before(snapshot: Snapshot, container: Container, mine: RuntimeContainer) -> Optional[RuntimeContainer]:
    """The newest container of the same pod and name before this one, in whichever sandbox it was."""
    runtime = snapshot.runtime
    if runtime is None:
        return None
    sandboxes = {pod.sandbox_id for pod in runtime.pods if pod.uid == container.pod.uid}
    older = [
        one
        for one in runtime.containers
        if one.sandbox_id in sandboxes and one.name == mine.name and one.attempt < mine.attempt and not one.running
    ]
    return max(older, key=lambda one: one.attempt, default=None)

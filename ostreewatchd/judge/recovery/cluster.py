# SPDX-License-Identifier: Apache-2.0
"""The API server has heard of the node since the restart: its lease, and its Node object.

The node does not turn NotReady in a restart: it takes seconds, and the grace period is 40 s and more. So Ready is
what was true before, and a heartbeat counts only if it is newer than kubelet's start: at its start kubelet always
reports, and later for minutes not, if nothing changed. A heartbeat has whole seconds, so one of the second in which
kubelet started may be newer; the lease, of microseconds and renewed each 10 s, decides.

Sources: kubernetes pkg/kubelet/kubelet_node_status.go, pkg/kubelet/nodelease; kubernetes#126287 (grace period);
sandboxed-containers-operator#1349 (the next node began because of a stale Ready)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.recovery.row import Moment, absent, bad, good, old, unseen
from ostreewatchd.model import Row

NODE = "node-ready"
LEASE = "node-lease"
_RESOLUTION = 1.0
_LEASE_LASTS = 40.0
_NOBODY = "nobody asks the API server"


def node(moment: Moment) -> Iterator[Row]:
    """Ready, and reported since kubelet's start if that is since the restart."""
    sample, cluster = moment.sample, moment.sample.cluster
    if cluster is None:
        yield unseen(NODE, _NOBODY)
    elif cluster.problem or cluster.ready is None or cluster.heartbeat_wall is None:
        yield absent(NODE, cluster.problem or "the Node has no condition Ready, or no heartbeat in it")
    elif not cluster.ready:
        yield bad(NODE, "the Node is not Ready")
    elif (
        sample.kubelet.began >= moment.recovery.since
        and sample.moment(cluster.heartbeat_wall) + _RESOLUTION <= sample.kubelet.began
    ):
        yield old(NODE, "the Node is Ready as of before the restart: kubelet has not reported since its start")
    else:
        yield good(NODE, "the Node is Ready")


def lease(moment: Moment) -> Iterator[Row]:
    """Renewed since the restart, and still in time."""
    sample, cluster = moment.sample, moment.sample.cluster
    if cluster is None:
        yield unseen(LEASE, _NOBODY)
        return
    renewed = sample.moment(cluster.lease_wall) if cluster.lease_wall is not None else None
    if cluster.problem or renewed is None:
        yield absent(LEASE, cluster.problem or "the node has no lease")
    elif renewed <= moment.of_kubelet:
        yield old(LEASE, "the node's lease was not renewed since the restart")
    elif sample.at - renewed > _LEASE_LASTS:
        yield bad(LEASE, f"the node's lease ended: it was renewed {sample.at - renewed:.0f} s ago")
    else:
        yield good(LEASE, f"the node's lease was renewed {max(0.0, sample.at - renewed):.0f} s ago")

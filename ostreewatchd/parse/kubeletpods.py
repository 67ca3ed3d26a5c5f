# SPDX-License-Identifier: Apache-2.0
"""kubelet's answers to /pods, /runningpods/ and /metrics: of all that is in them only what tells of recovery. What
else a pod's text has (environment, annotations) is not even decoded.

Source: Kubernetes API v1 PodList; kubernetes pkg/kubelet/metrics (kubelet_pleg_last_seen_seconds)."""

from __future__ import annotations

import calendar
import re
from typing import Any, Optional

import msgspec

from ostreewatchd.model import PodSeen

MAX_PODS = 4000
"""Of one node; kubelet's own limit is 110 unless it is raised."""
_CRITICAL = "system-node-critical"
_MAX_NAME = 253
_TIME = re.compile(r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.\d{1,9})?Z", re.ASCII)
_PLEG = re.compile(rb"^kubelet_pleg_last_seen_seconds ([0-9.eE+]{1,40})$", re.MULTILINE)


class Unclear(ValueError):
    """Not what was asked for."""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletionTimestamp: Optional[str] = None


class _Spec(msgspec.Struct, frozen=True):
    priorityClassName: str = ""


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    lastTransitionTime: Optional[str] = None


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""


class _State(msgspec.Struct, frozen=True):
    waiting: Optional[_Waiting] = None


class _Container(msgspec.Struct, frozen=True):
    restartCount: int = 0
    state: _State = _State()


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    conditions: Optional[list[_Condition]] = None
    initContainerStatuses: Optional[list[_Container]] = None
    containerStatuses: Optional[list[_Container]] = None


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _List(msgspec.Struct, frozen=True):
    kind: str
    items: Optional[list[_Pod]] = None


def pods(data: bytes) -> tuple[PodSeen, ...]:
    """Of a PodList. Raises Unclear."""
    try:
        found = msgspec.json.decode(data, type=_List)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Unclear(f"no PodList: {error}"[:200]) from error
    items = found.items or []
    if found.kind != "PodList" or len(items) > MAX_PODS:
        raise Unclear(f"no PodList, or one of more than {MAX_PODS} pods")
    return tuple(_pod(one) for one in items)


def pleg(data: bytes) -> Optional[float]:
    """When kubelet last looked through its runtime's containers, in seconds since the epoch; None: it does not say."""
    match = _PLEG.search(data)
    try:
        return float(match.group(1)) if match else None
    except ValueError:
        return None


def _pod(pod: _Pod) -> PodSeen:
    status = pod.status
    containers = [*(status.initContainerStatuses or []), *(status.containerStatuses or [])]
    ready = next((one for one in status.conditions or [] if one.type == "Ready"), None)
    waiting = [one.state.waiting.reason for one in containers if one.state.waiting is not None]
    return PodSeen(
        namespace=pod.metadata.namespace[:_MAX_NAME],
        name=pod.metadata.name[:_MAX_NAME],
        uid=pod.metadata.uid[:_MAX_NAME],
        phase=status.phase[:_MAX_NAME],
        ready=None if ready is None else ready.status == "True",
        ready_changed_wall=_moment(ready.lastTransitionTime) if ready is not None else None,
        reason=status.reason[:_MAX_NAME],
        waiting=tuple(reason[:_MAX_NAME] for reason in waiting if reason),
        restarts=sum(one.restartCount for one in containers),
        critical=pod.spec.priorityClassName == _CRITICAL,
        going=pod.metadata.deletionTimestamp is not None,
    )


def _moment(text: Any) -> Optional[float]:
    """Of the API's form of RFC 3339."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    try:
        return float(calendar.timegm((*map(int, match.groups()), 0, 0, 0))) if match else None
    except ValueError:
        return None  # There is no such day.

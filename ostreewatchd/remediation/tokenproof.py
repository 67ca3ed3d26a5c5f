# SPDX-License-Identifier: Apache-2.0
"""Whether a writer that was restarted has written its credential anew where the host sees it.

Which a restart must bring is told before it: what its writer had kept up by its own schedule until then. Of one that
was silent already nothing is expected, unless it is restarted for that; it is told by rules of its own.

Sources: projectcalico/calico node/pkg/cni/token_watch.go and #7208 (a new token is the first thing that it asks for);
k8snetworkplumbingwg/multus-cni cmd/thin_entrypoint (it copies what kubelet has in the pod's volume)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Optional

from ostreewatchd.judge.tokens.state import renewal_due
from ostreewatchd.judge.tokens.writers import dates, names_of
from ostreewatchd.model import Container, Credential, Snapshot, Subject

Expected = Mapping[str, Optional[float]]
"""By path: when the host's was issued before the restart; None: the host had none."""
_CLOCK = 2.0
"""Seconds: a start is known to a tick, in another clock than a file's change."""


def expected(snapshot: Snapshot, subject: Subject) -> Expected:
    """What the restart of the subject's container must bring."""
    hosts = {one.path: one.issued_at for one in snapshot.credentials if not one.container_id}
    return {one.path: hosts.get(one.path) for one in snapshot.credentials if _is_kept_up(snapshot, one, subject)}


def _is_kept_up(snapshot: Snapshot, one: Credential, subject: Subject) -> bool:
    mine = one.container_id in ("", subject.container_id) and subject.container in names_of(one)
    if not mine or one.kind != "token" or one.issued_at is None or one.expires_at is None:
        return False
    kept_up = snapshot.restarts_silent_writers or snapshot.taken_at <= renewal_due(one)
    return kept_up and one.pod_is_here is not False


def missing(snapshot: Snapshot, successor: Container, wanted: Expected) -> str:
    """What is not as it must be yet; empty: all is."""
    hosts = {one.path: one for one in snapshot.credentials if not one.container_id}
    for path, issued_at in wanted.items():
        one = hosts.get(path)
        if one is None:
            return f"the host has no {path} yet"
        if one.problem:
            return f"{path}: it {one.problem}"
        why = _of_pod(one, successor) if one.pod_uid else _unbound(one, successor, issued_at)
        if why:
            return f"{path} {why} ({dates(one)})"
        if one.accepted is False:
            return f"{path}: the API server does not accept it ({dates(one)})"
    return ""


def told(snapshot: Snapshot, wanted: Expected) -> str:
    """For the proof's text."""
    shown = []
    for one in snapshot.credentials:
        if not one.container_id and one.path in wanted:
            accepted = {True: "accepted by the API server", None: "which no API server was there to accept"}
            shown.append(f"{one.path} {dates(one)}, {accepted.get(one.accepted, '')}")
    return "; ".join(shown)


def _of_pod(one: Credential, successor: Container) -> str:
    if one.pod_uid != successor.pod.uid:
        return "is bound to another pod"
    if one.projected is False:
        return "is not the one that kubelet has for the pod"
    return "" if one.projected else _written(one, successor)


def _unbound(one: Credential, successor: Container, issued_at: Optional[float]) -> str:
    if issued_at is not None and (one.issued_at is None or one.issued_at <= issued_at):
        return "is as old as before the restart"
    return _written(one, successor)


def _written(one: Credential, successor: Container) -> str:
    return "" if one.modified_at >= successor.started_at - _CLOCK else "was not written since the restart"

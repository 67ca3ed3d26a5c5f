# SPDX-License-Identifier: Apache-2.0
"""The API server refuses the credential that the host has for a CNI plugin, and by its dates it should take it: the
key that signed it was rotated, or its service account was made anew. Of the second kubelet goes on to hand out the
token that it has cached, so a restart of a container brings the same again; only kubelet's restart ends that.

Source: kubernetes pkg/kubelet/token/token_manager.go (a cached token is served until it is due), pkg/serviceaccount/
claims.go (the account's UID must match); projectcalico/calico#12595."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.judge.tokens.state import state_of
from ostreewatchd.judge.tokens.writers import dates, remedy
from ostreewatchd.model import Change, Finding, Snapshot, Subject

rule = HostRule("token-refused")
_KUBELET = (
    "restart kubelet's unit, and nothing smaller: it hands out the token that it has cached, which is this one, also"
    " to a restarted container; then restart the container"
)


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each of the host's, as far as an API server was asked. What is expired or bound to a pod that is gone is told by
    rules of their own."""
    unit = next((one.unit for one in snapshot.daemons if one.kind == "kubelet"), "")
    for one in snapshot.credentials:
        if one.accepted is not False or state_of(snapshot, one) in ("expired", "orphaned"):
            continue
        because = f"the API server refuses it, though its end is yet to come ({dates(one)})"
        if one.projected and unit:
            yield _of_kubelet(unit, one.path, f"{because}, and it is the one that kubelet has cached for the pod")
        else:
            yield rule.wrong(one.path, because=because, remedy=_KUBELET if one.projected else remedy(snapshot, one))


def _of_kubelet(unit: str, path: str, because: str) -> Finding:
    """As any unit that has not taken over what there is now."""
    return Finding(
        rule=rule.name,
        verdict="stale",
        owed=True,
        subject=Subject(kind="unit", unit=unit),
        path=path,
        reason=because,
        remedy=_KUBELET,
        changes=(Change(rule=rule.name, action="restart", because=f"{path}: {because}"),),
    )

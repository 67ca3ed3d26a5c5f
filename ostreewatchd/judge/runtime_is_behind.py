# SPDX-License-Identifier: Apache-2.0
"""The container runtime, or kubelet, runs with something else than the live tree has: handlers, settings, its unit
file, its program or a library. What makes it effective is a reload, a restart, or a reboot of a drained node; what is
displayed after a reload is no proof.

Source: cri-o#10202, cri-o pkg/config/reload.go, internal/version; containerd#13285; systemctl(1) daemon-reload;
mount_namespaces(7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ostreewatchd.judge import runtime as rules
from ostreewatchd.judge.rule import Cure, Rule
from ostreewatchd.model import Change, Finding, Service, Snapshot, Subject

rule = Rule("runtime-is-behind", cure=Cure.RESTART_UNIT)
_REMEDIES = {
    "reload": "reload {unit}",
    "restart": "restart {unit}",
    "drain-and-reboot": "drain the node and reboot it",
}
_SIZES = ("reload", "restart", "drain-and-reboot")
_SHOWN = 20


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """One finding a unit."""
    runtime = snapshot.node_runtime
    if runtime is None:
        return
    yield from _of(runtime.service, rules.changes(runtime))
    if runtime.kubelet is not None:
        yield from _of(runtime.kubelet, rules.kubelet_changes(runtime.kubelet))


def _of(service: Service, changes: Sequence[Change]) -> Iterator[Finding]:
    due = [one for one in changes if one.action != "nothing"]
    unknown = [one for one in changes if one.unknown]
    shown = due or unknown
    if not shown:
        return
    action = max((one.action for one in due), key=_SIZES.index, default="nothing")
    yield Finding(
        rule=rule.name,
        verdict="stale" if due else "unknown",
        owed=bool(due),
        subject=Subject(kind="unit", unit=service.unit),
        path="",
        reason=_some(shown),
        remedy=_REMEDIES.get(action, "none: look at the reason").format(unit=service.unit),
        evidence=tuple(f"{one.rule}: {one.because}" for one in changes)[:_SHOWN],
        changes=tuple(changes),
    )


def _some(changes: Sequence[Change]) -> str:
    more = f"; and {len(changes) - 3} more" if len(changes) > 3 else ""
    return "; ".join(one.because for one in changes[:3]) + more

# SPDX-License-Identifier: Apache-2.0
"""What a runtime and its kubelet need after a switch: nothing, a reload, a restart, a daemon-reload before it, or
drain and reboot; and why not now. Nothing is done by it.

The smallest that makes all changes effective, not one step for each: a restart takes over what a reload would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ostreewatchd.model import Change, Decision, Runtime, RuntimeAction
from ostreewatchd.plan import runtimerefusals
from ostreewatchd.platforms.runtimes import HABITS

_SIZE: Mapping[RuntimeAction, int] = {"nothing": 0, "reload": 1, "restart": 2, "drain-and-reboot": 3}
_LARGER: Mapping[RuntimeAction, str] = {
    "nothing": "",
    "reload": "a restart would make kubelet and all pods' probes wait, and shows nothing that a reload does not",
    "restart": "running containers keep running, and new ones get what is new: no reboot is needed for that",
    "drain-and-reboot": "",
}


def decide(runtime: Runtime, own: Sequence[Change], kubelets: Sequence[Change]) -> tuple[Decision, ...]:
    """For the runtime's unit, and for kubelet's where it is one of its own. `own`, `kubelets`: what judge.runtime says
    of each. What holds for the whole node (a switch or a transaction under way, a pause) is not in it."""
    first = _of_runtime(runtime, own)
    if runtime.kubelet is None:
        return (first,)
    second = _decision(runtime.kubelet.unit, kubelets)
    if second.action != "nothing":
        refused = tuple(runtimerefusals.of_kubelet(runtime.kubelet))
        second = msgspec.structs.replace(second, refusals=refused, smaller="kubelet reads nothing but at its start")
    return (first, second)


def _of_runtime(runtime: Runtime, changes: Sequence[Change]) -> Decision:
    made = _decision(runtime.service.unit, changes)
    if made.action == "reload" and runtime.flags:
        because = f"a reload would lose what its command line sets: {' '.join(runtime.flags)}"
        made = _decision(made.unit, (*changes, Change(rule="command-line", action="restart", because=because)))
    if made.action == "nothing":
        return made
    refused = tuple(runtimerefusals.of_runtime(runtime, made.action))
    along = HABITS[runtime.kind].embeds if made.action == "restart" else ()
    if made.action == "restart" and runtime.kubelet is not None and runtime.kubelet_goes_along:
        along = (*along, runtime.kubelet.unit)
    return msgspec.structs.replace(made, refusals=refused, smaller=_smaller(runtime, made.action), along=along)


def _decision(unit: str, changes: Sequence[Change]) -> Decision:
    known = [one for one in changes if not one.unknown]
    action: RuntimeAction = "nothing"
    for one in known:
        if _SIZE[one.action] > _SIZE[action]:
            action = one.action
    mine = tuple(one for one in known if action != "nothing" and one.action == action)
    return Decision(
        unit=unit,
        action=action,
        daemon_reload=any(one.daemon_reload for one in mine),
        because=mine,
        beside=tuple(one for one in changes if one not in mine),
        larger=_LARGER[action],
    )


def _smaller(runtime: Runtime, action: RuntimeAction) -> str:
    if action == "reload":
        return "nothing reads it again by itself"
    if action == "restart" and HABITS[runtime.kind].reloads:
        return "a reload changes what is displayed and not what is served, or does not read it at all"
    if action == "restart":
        return f"{runtime.kind} has no reload: a SIGHUP ends it"
    return "a restart would lose what runs, or would not help"

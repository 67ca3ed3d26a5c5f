# SPDX-License-Identifier: Apache-2.0
"""The ladder without an API server: container stop, then sandbox stop. Each at most once a switch and subject, the
larger one after the failed proof of the smaller one or where that cannot help, and only where it can help itself.

A container's binds are made by its sandbox's shim (containerd), which lives as long as the sandbox and may be in a
mount namespace that never saw the switch; a new sandbox has a new shim, which sees what the runtime sees. CRI-O
starts a conmon for each container, so there a new container is enough. Source: containerd core/runtime/v2 (a shim a
sandbox); cri-o internal/oci; openshift/enhancements#593 (kubelet and runtime in a namespace of their own)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Union

from ostreewatchd.model import STOPPED_NOTHING, Container, Finding, PastAct, Snapshot
from ostreewatchd.plan.moment import bind_of, current

MAY_STILL_COME = "stop-may-still-come"
"""The refusal's name; one at a time, so it holds all others back too."""
Kind = Literal["stop-container", "stop-sandbox"]


class Rung(NamedTuple):
    """What to do next. `after_failure`: the smaller one did not cure."""

    kind: Kind
    smaller: str = ""
    after_failure: bool = False


class End(NamedTuple):
    """Nothing more: the name of the refusal, and why; and what ends it, if that is no person."""

    name: str
    because: str
    ends: str = ""


def next_rung(snapshot: Snapshot, container: Container, findings: Sequence[Finding]) -> Union[Rung, End]:
    """An intent for this very container whose outcome is unknown is taken up again, if it would still help: stopping
    a stopped container is nothing. And one that a second look did not find stale stopped nothing: what it found may
    have been a torn moment."""
    acts = _acts(snapshot, container)
    helps = _what_helps(snapshot, container, findings)
    if not acts:
        if not helps:
            return End("runtime-is-stale", "whatever the runtime starts shows what this container shows")
        return Rung(helps[0], _STALE_SHIM if helps[0] == "stop-sandbox" else "")
    last = acts[-1]
    switch = f"switch {last.switch_id}"
    if last.subject.container_id == container.id:
        kind: Kind = "stop-sandbox" if last.step == "stop-sandbox" else "stop-container"
        if not last.outcome and kind not in helps:
            because = f"{switch}: act {last.id} was interrupted; a {kind.replace('-', ' ')} would not help any more"
            return End(MAY_STILL_COME, because, "when it is certain that its stop does not come, after two minutes")
        if not last.outcome:
            return Rung(kind, _failed(acts[-2]) if len(acts) > 1 else "", after_failure=len(acts) > 1)
        name = last.failure if last.failure == "container-will-not-stop" else "already-restarted"
        return End(name, f"{switch}: stopping it was tried (act {last.id}): {last.outcome}: {last.proof}")
    tried = {act.step for act in acts}
    if last.outcome == "not-cured" and tried == {"stop-container"} and "stop-sandbox" in helps:
        return Rung("stop-sandbox", _failed(last), after_failure=True)
    return End("already-restarted", f"{switch}: it was restarted once already (act {last.id}) and is stale again")


_STALE_SHIM = "a container stop: the sandbox's shim has not seen the switch, and would bind the old directory again"


def _failed(act: PastAct) -> str:
    return f"the container stop was tried (act {act.id}) and did not cure: {act.proof}"


def _acts(snapshot: Snapshot, container: Container) -> list[PastAct]:
    """What this switch did to the subject, less what is known to have stopped nothing."""
    switch = current(snapshot)
    if switch is None:
        return []
    key = (container.pod.uid, container.name)
    return [
        act
        for act in snapshot.history.acts
        if act.switch_id == switch.id and act.subject.key == key and act.outcome not in STOPPED_NOTHING
    ]


def _what_helps(snapshot: Snapshot, container: Container, findings: Sequence[Finding]) -> list[Kind]:
    """What would show the container all that PID 1 has, smallest first."""
    binds = [bind for bind in (bind_of(container, finding) for finding in findings) if bind is not None]
    if not any(snapshot.shows_the_hosts(bind.host_path, container.maker(bind)) is False for bind in binds):
        return ["stop-container"]
    seen = [
        snapshot.shows_the_hosts(bind.host_path, one.mount_namespace) for bind in binds for one in snapshot.runtimes
    ]
    if not seen or not all(seen):
        return []  # Known to be stale, or not known: a restart would be a guess.
    return ["stop-container"] if snapshot.has_binder_of_its_own(container) else ["stop-sandbox"]

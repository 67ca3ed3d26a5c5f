# SPDX-License-Identifier: Apache-2.0
"""What a scenario cannot build: systemd, runtime and kubelet that answer, and a ledger that remembers. A look at a
fake host asks none of them, so their parts of the Snapshot are made here; that the real ones are asked rightly is
shown by tests of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ostreewatchd.model import (
    ClockStep,
    History,
    KubeletView,
    OutcomeName,
    PastAct,
    RuntimeContainer,
    RuntimePod,
    RuntimeView,
    Snapshot,
    StaticPod,
    Subject,
    Switch,
    SystemView,
)

DAEMON_SET = {"controller-revision-hash": "5d8f", "pod-template-generation": "1"}


def answered(
    snapshot: Snapshot,
    *,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    annotations: Mapping[str, Mapping[str, str]] | None = None,
    static_pods: Sequence[StaticPod] = (),
    system: str = "running",
    kubelet: tuple[str, str] | None = None,
    unknown: Sequence[str] = (),
) -> Snapshot:
    """As if all were asked and well: each pod is a DaemonSet's unless `labels` or `annotations` (by container) say
    otherwise, `unknown` are containers that the runtime does not list, `kubelet` the name and text of a refusal."""
    sandboxes = {one.id: one.sandbox_id or f"sandbox of {one.pod.name}" for one in snapshot.containers}
    pods: dict[str, RuntimePod] = {}
    running = []
    for one in snapshot.containers:
        if one.name in unknown:
            continue
        sandbox = f"{sandboxes[one.id]}/{one.pod.name}"
        pods.setdefault(
            sandbox,
            RuntimePod(
                sandbox_id=sandbox,
                namespace=one.pod.namespace,
                name=one.pod.name,
                uid=one.pod.uid,
                ready=True,
                labels=dict((labels or {}).get(one.name, DAEMON_SET)),
                annotations=dict((annotations or {}).get(one.name, {})),
            ),
        )
        running.append(
            RuntimeContainer(id=one.id, sandbox_id=sandbox, name=one.name, attempt=one.attempt or 0, running=True)
        )
    name, problem = kubelet or ("", "")
    return msgspec.structs.replace(
        snapshot,
        system=SystemView(state=system),
        runtime=RuntimeView(
            socket="/run/containerd/containerd.sock", pods=tuple(pods.values()), containers=tuple(running)
        ),
        kubelet=KubeletView(pid=900, refusal=name, problem=problem, static_pods=tuple(static_pods)),
    )


def clock_set(snapshot: Snapshot, *steps: tuple[float, float]) -> Snapshot:
    """As if the clock had been set by so many seconds, so many seconds ago; in this order."""
    at = snapshot.taken_boottime
    return msgspec.structs.replace(
        snapshot, clock_steps=tuple(ClockStep(by=by, boottime=at - ago) for by, ago in steps)
    )


def remembered(
    snapshot: Snapshot,
    *,
    before: bool = True,
    acts: Sequence[tuple[str, OutcomeName]] = (),
    same_container: bool = False,
) -> Snapshot:
    """With a ledger that knows the live switch, seen at this look. `before`: and the state before it; `acts`:
    `(container, outcome)` of what was done for this switch, to a container that is gone unless `same_container`."""
    boot = snapshot.node.boot_id
    now = Switch(
        id="s2", fingerprint=snapshot.live.fingerprint, boot_id=boot, deployment=snapshot.live.deployments.etc,
        seen_at=snapshot.taken_at + 60, seen_boottime=snapshot.taken_boottime + 60,
    )  # fmt: skip
    past = Switch(id="s1", fingerprint="before", boot_id=boot, deployment=snapshot.live.deployments.booted,
                  seen_at=snapshot.taken_at - 9000, seen_boottime=snapshot.taken_boottime - 9000)  # fmt: skip
    done: list[PastAct] = []
    for container, outcome in acts:
        one = next(one for one in snapshot.containers if one.name == container)
        subject = Subject(
            namespace=one.pod.namespace, pod=one.pod.name, pod_uid=one.pod.uid, container=one.name,
            container_id=one.id if same_container else "0" * 64,
        )  # fmt: skip
        done.append(
            PastAct(
                id=len(done) + 1,
                switch_id="s2",
                step="stop-container",
                subject=subject,
                because="it was stale",
                intent_at=snapshot.taken_at - 30,
                outcome=outcome,
                outcome_at=snapshot.taken_at - 20 if outcome else None,
                proof="as seen" if outcome else "",
            )  # fmt: skip
        )
    history = History(switch=now, before=past if before else None, acts=tuple(done))
    return msgspec.structs.replace(snapshot, history=history)

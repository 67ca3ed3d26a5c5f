# SPDX-License-Identifier: Apache-2.0
"""From Snapshot and findings to ordered steps and refusals. Pure: the ledger's history is in the Snapshot.

A refusal that holds for the node stops everything; one that holds for a subject stops only that."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Sequence
from typing import Optional, Union

from ostreewatchd import settle
from ostreewatchd.model import (
    Bind,
    Container,
    Finding,
    Plan,
    Reference,
    Refusal,
    RuntimePod,
    Settings,
    Snapshot,
    StaticPod,
    Step,
    Subject,
    Switch,
)

_CLOCKS_APART = 1.0
"""Seconds. A start is known to a tick, in another clock than a birth: closer than this is no order."""
_SOURCE_ANNOTATION = "kubernetes.io/config.source"

_SYSTEM_NAMESPACES = ("kube-system", "calico-system", "tigera-operator")
_BY_HAND = "when the container shows what the host has (a person's restart of its pod), or with the next switch"
_AT_ONCE = "stopped at once, for on exit it would clean up in the wrong tree"
SMALLER = "none: a bind keeps its directory for as long as the container runs (mount_namespaces(7))"
LARGER = "stop the sandbox, only if the new container still shows the old directory: it would rerun init containers"


def plan(snapshot: Snapshot, findings: Iterable[Finding], settings: Settings) -> Plan:
    """What to do now about what is owed. Empty: nothing is owed."""
    owed = [finding for finding in findings if finding.owed and finding.verdict == "stale"]
    if not owed:
        return Plan()
    node = tuple(_node_refusals(snapshot, owed, settings))
    if node:
        return Plan(refusals=node)
    steps: list[Step] = []
    refusals: list[Refusal] = []
    for key in dict.fromkeys(finding.subject.key for finding in owed):
        mine = [finding for finding in owed if finding.subject.key == key]
        outcome = _subject(snapshot, mine)
        if isinstance(outcome, Step):
            steps.append(outcome)
        else:
            refusals.append(outcome)
    steps.sort(key=lambda step: _rank(snapshot.writers, step.subject))
    if settings.mode == "observe":
        for step in steps:
            refusals.append(
                Refusal(
                    name="mode-observe",
                    because=f"Mode=observe: would {step.kind.replace('-', ' ')}",
                    ends="when Mode=heal is configured",
                    subject=step.subject,
                )
            )
        steps = []
    return Plan(steps=tuple(steps), refusals=tuple(refusals))


def _rank(writers: Sequence[str], subject: Subject) -> tuple[bool, int, str]:
    """The platform's order. A name alone proves nothing, so whoever is in a namespace of the system's goes first."""
    place = writers.index(subject.container) if subject.container in writers else len(writers)
    return (subject.namespace not in _SYSTEM_NAMESPACES and not subject.namespace.startswith("openshift-"), place,
            str(subject))  # fmt: skip


def _node_refusals(snapshot: Snapshot, owed: Sequence[Finding], settings: Settings) -> Iterable[Refusal]:
    system = snapshot.system
    if system is None or system.problem:
        why = system.problem if system else "it was not asked"
        yield Refusal(name="systemd-not-answering", because=why, ends="when systemd answers")
    elif system.state == "stopping":
        yield Refusal(name="shutting-down", because="systemd is stopping the system", ends="with the shutdown")
    busy = settle.in_progress(snapshot.flags, complete=settle.complete(snapshot), cap=settings.settle_cap)
    if busy is not None:
        yield Refusal(name="switch-in-progress", because=busy, ends="when the file is removed")
    if snapshot.history.problem:
        yield Refusal(
            name="ledger-unusable",
            because=snapshot.history.problem,
            ends="when the ledger can be read and written",
            alarm=True,
        )
    broken = _breaker(snapshot, owed)
    if broken:
        yield Refusal(name="breaker", because=broken, ends=_BY_HAND, alarm=True)
    runtime, kubelet = snapshot.runtime, snapshot.kubelet
    if runtime is None or runtime.problem:
        why = runtime.problem if runtime else "it was not asked"
        yield Refusal(name="runtime-not-answering", because=why, ends="when the runtime answers")
    if kubelet is None or kubelet.problem:
        why = kubelet.problem if kubelet else "it was not asked"
        name = kubelet.refusal if kubelet else "kubelet-unknown"
        yield Refusal(name=name, because=why, ends="when kubelet would start a stopped container again")


def _current(snapshot: Snapshot) -> Optional[Switch]:
    """The ledger's switch, if it is the live one."""
    switch = snapshot.history.switch
    return switch if switch is not None and switch.fingerprint == snapshot.live.fingerprint else None


def _breaker(snapshot: Snapshot, owed: Sequence[Finding]) -> str:
    """One failed proof stops further restarts of that switch, for what did not help one may not help another;
    until the container is seen fresh, or its pod is gone."""
    switch = _current(snapshot)
    for act in snapshot.history.acts if switch else ():
        if switch is None or act.switch_id != switch.id or act.outcome != "not-cured":
            continue
        key = act.subject.key
        stale = any(finding.subject.key == key for finding in owed)
        runs = any((one.pod.uid, one.name) == key for one in snapshot.containers)
        gone = snapshot.runtime is not None and not snapshot.runtime.has_ready_pod(act.subject.pod_uid)
        if stale or not (runs or gone):
            return f"switch {switch.id}: restarting {act.subject} did not cure it ({act.proof})"
    return ""


def _subject(snapshot: Snapshot, findings: Sequence[Finding]) -> Union[Step, Refusal]:
    """The Step that cures these findings of one subject, or the Refusal."""
    subject = findings[0].subject

    def refuse(name: str, because: str, ends: str, *, alarm: bool = False) -> Refusal:
        return Refusal(name=name, because=because, ends=ends, subject=subject, alarm=alarm)

    container = snapshot.container(subject.container_id)
    if container is None or not container.pod.uid or not container.name:
        return refuse(
            "owner-unknown", "neither bundle nor log link says whose container it is", "when kubelet's names are there"
        )
    again = _done_before(snapshot, container)
    if again:
        return refuse("already-restarted", again, _BY_HAND, alarm=True)
    for finding in findings:
        after = _started_after(snapshot, container, finding)
        if after:
            return refuse("started-after-switch", after, _BY_HAND, alarm=True)
        lost = _lost_configuration(snapshot, container, finding)
        if lost:
            return refuse("cni-configuration-missing", lost, "when the files are in the new directory", alarm=True)
    pod = _runtime_pod(snapshot, container)
    if pod is None:
        return refuse("runtime-does-not-know-it", "the runtime lists no such running container", "at the next look")
    policy, because = restart_policy(snapshot, pod)
    if policy != "Always":
        name = "restart-policy-unknown" if not policy else "restart-policy-not-always"
        return refuse(name, because, _BY_HAND, alarm=True)
    return Step(
        kind="stop-container",
        subject=subject,
        sandbox_id=pod.sandbox_id,
        attempt=container.attempt,
        grace=0,
        because=f"{findings[0].reason}; kubelet starts it again: {because}; {_AT_ONCE}",
        smaller=SMALLER,
        larger=LARGER,
    )


def _done_before(snapshot: Snapshot, container: Container) -> str:
    """Why a second restart would be one too many (DESIGN invariant 6); empty if it would not. An intent for
    this very container whose outcome is unknown is taken up again: stopping a stopped container is nothing. And
    one that a second look did not find stale stopped nothing: what it found may have been a torn moment."""
    switch = _current(snapshot)
    for act in snapshot.history.acts if switch else ():
        if switch is None or act.switch_id != switch.id or act.subject.key != (container.pod.uid, container.name):
            continue
        if act.outcome == "not-needed":
            continue
        if act.subject.container_id != container.id:
            return f"switch {switch.id}: it was restarted once already (act {act.id}) and is stale again"
        if act.outcome:
            return f"switch {switch.id}: stopping it was tried (act {act.id}): {act.outcome}"
    return ""


def _bind(container: Container, finding: Finding) -> Optional[Bind]:
    return next((one for one in container.binds if one.path == finding.inside), None)


def _started_after(snapshot: Snapshot, container: Container, finding: Finding) -> str:
    """Why the container is no leftover of the switch: it was started after it. Also where the order cannot be
    told.

    What the kernel says first: unique mount ids order the container's bind and the host's mount. Then what the
    ledger remembers: if it knew the state before this switch, in this boot, then what was started before the
    switch was first seen is taken for a leftover; a second restart is the ledger's to prevent. With no memory the
    birth of the directory is left, in wall-clock time."""
    bind = _bind(container, finding)
    reference = snapshot.reference(finding.path, container.binder.mount_namespace)
    if bind is None or reference is None:
        return "its bind is gone"
    mine, theirs = bind.sight.serial, reference.sight.serial
    if mine is not None and theirs is not None and mine < theirs:
        return ""
    seen = _remembered(snapshot)
    if seen is not None:
        if container.started_boottime < seen:
            return ""
        return f"it was started {container.started_boottime - seen:.0f} s after the switch was first seen"
    born = reference.sight.born_at
    if born is not None and container.started_at + _CLOCKS_APART < born:
        return ""
    if mine is not None and theirs is not None:
        return f"its mount (id {mine}) is younger than the host's (id {theirs}): it was started after the switch"
    return "whether it was started before the switch cannot be told: the ledger knows no earlier state of this boot"


def _remembered(snapshot: Snapshot) -> Optional[float]:
    """When (CLOCK_BOOTTIME) a remediation first saw the live switch, if the ledger knew the state before it."""
    switch, before = _current(snapshot), snapshot.history.before
    boot = snapshot.node.boot_id
    if switch is None or before is None or snapshot.history.set_aside_boot == boot:
        return None
    return switch.seen_boottime if switch.boot_id == before.boot_id == boot else None


def _lost_configuration(snapshot: Snapshot, container: Container, finding: Finding) -> str:
    """CNI configuration that the old directory has and the new one lacks, less what its writer makes anew at
    each start. Init containers do not run again, so nobody would bring it back."""
    bind = _bind(container, finding)
    reference = snapshot.reference(finding.path, container.binder.mount_namespace)
    if bind is None or reference is None or finding.path not in snapshot.cni_directories:
        return ""
    lost = [
        name
        for name in sorted(set(bind.sight.names) - set(_names(snapshot, reference)))
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in snapshot.self_written)
    ]
    if not lost:
        return ""
    return f"the host's {finding.path} lacks {', '.join(lost)}: a restart does not write it, and pods would lose it"


def _names(snapshot: Snapshot, reference: Reference) -> tuple[str, ...]:
    init = snapshot.reference(reference.host_path, snapshot.init_mount_namespace)
    return init.sight.names if init is not None else reference.sight.names


def _runtime_pod(snapshot: Snapshot, container: Container) -> Optional[RuntimePod]:
    runtime = snapshot.runtime
    if runtime is None:
        return None
    sandbox = next((one.sandbox_id for one in runtime.containers if one.id == container.id and one.running), None)
    return next((pod for pod in runtime.pods if pod.sandbox_id == sandbox), None)


def restart_policy(snapshot: Snapshot, pod: RuntimePod) -> tuple[str, str]:
    """`(policy, how it is known)`; the policy is empty where it is not known.

    Source: the API's validation allows only Always in templates of DaemonSets, ReplicaSets and StatefulSets,
    whose controllers put these labels on their pods; a Job's pods may not have Always."""
    labels = pod.labels
    if pod.annotations.get(_SOURCE_ANNOTATION) in ("file", "http"):
        return _static_policy(snapshot, pod)
    if "batch.kubernetes.io/job-name" in labels or "job-name" in labels:
        return "OnFailure", "its labels are a Job's"
    if "controller-revision-hash" in labels and "pod-template-generation" in labels:
        return "Always", "its labels are a DaemonSet's"
    if labels.get("statefulset.kubernetes.io/pod-name") == pod.name:
        return "Always", "its labels and its name are a StatefulSet's"
    if labels.get("pod-template-hash") and f"-{labels['pod-template-hash']}-" in pod.name:
        return "Always", "its labels and its name are a ReplicaSet's"
    return "", "no manifest and no controller's label says its restart policy"


def _static_policy(snapshot: Snapshot, pod: RuntimePod) -> tuple[str, str]:
    """kubelet appends its node's name to a static pod's, and that may be another than the host's: of the manifests
    whose name leads up to a dash in the pod's, the longest is meant."""
    found: Optional[StaticPod] = None
    for static in snapshot.kubelet.static_pods if snapshot.kubelet else ():
        fits = static.namespace == pod.namespace and pod.name.startswith(f"{static.name}-")
        if fits and (found is None or len(static.name) > len(found.name)):
            found = static
    if found is not None:
        return found.restart_policy, f"restartPolicy {found.restart_policy} in {found.manifest}"
    return "", "it is a static pod and its manifest was not found"

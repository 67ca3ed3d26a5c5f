# SPDX-License-Identifier: Apache-2.0
"""The step that cures one subject, or the refusal: why not now, and what ends that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional, Union

from ostreewatchd.model import Container, Finding, Refusal, RuntimePod, Snapshot, Step, Subject
from ostreewatchd.plan import backoff, hopeless, ladder
from ostreewatchd.plan.moment import started_after
from ostreewatchd.plan.policy import restart_policy
from ostreewatchd.plan.restarting import NEW_SANDBOX

BY_HAND = "when the container shows what the host has (a person's restart of its pod), or with the next switch"
_AT_ONCE = "stopped at once: what it would do on exit it would do to the wrong tree"
SMALLER = "none: a bind keeps its directory for as long as the container runs (mount_namespaces(7))"
LARGER = (
    "stop the sandbox, only if the new container still shows the old directory and a new sandbox would not: it also"
    " restarts the pod's other containers and runs its init containers again"
)
_LARGEST = "restart the runtime, only if what it starts shows the old directory too; a person's to order"


def step_or_refusal(snapshot: Snapshot, findings: Sequence[Finding]) -> Union[Step, Refusal]:
    """For the owed findings of one subject."""
    subject = findings[0].subject

    def refuse(name: str, because: str, ends: str, *, alarm: bool = False) -> Refusal:
        return Refusal(name=name, because=because, ends=ends, subject=subject, alarm=alarm)

    container = snapshot.container(subject.container_id)
    if container is None or not container.pod.uid or not container.name:
        return refuse(
            "owner-unknown", "neither bundle nor log link says whose container it is", "when kubelet's names are there"
        )
    rung = ladder.next_rung(snapshot, container, findings)
    if isinstance(rung, ladder.End):
        return refuse(rung.name, rung.because, rung.ends or BY_HAND, alarm=not rung.ends)
    for finding in findings:
        # What this switch's own first rung started was started after it, and has not cured.
        # And a writer that went silent is no leftover of any switch.
        no_matter = rung.after_failure or finding.rule == "writer-stuck"
        after = "" if no_matter else started_after(snapshot, container, finding)
        if after:
            return refuse("started-after-switch", after, BY_HAND, alarm=True)
        lost = hopeless.lost(snapshot, container, finding)
        if lost:
            return refuse("cni-configuration-missing", lost, "when the files are in the new directory", alarm=True)
    pod = _runtime_pod(snapshot, container)
    if pod is None:
        return refuse("runtime-does-not-know-it", "the runtime lists no such running container", "at the next look")
    policy, because = restart_policy(snapshot, pod)
    if policy != "Always":
        name = "restart-policy-unknown" if not policy else "restart-policy-not-always"
        return refuse(name, because, BY_HAND, alarm=True)
    wait = backoff.wait(snapshot, container)
    if wait > backoff.LONGEST_WAIT:
        return _within_back_off(snapshot, container, subject, wait)
    sandbox = rung.kind == "stop-sandbox"
    return Step(
        kind=rung.kind,
        subject=subject,
        sandbox_id=pod.sandbox_id,
        attempt=container.attempt,
        grace=0,
        allowance=wait + (NEW_SANDBOX if sandbox else 0.0),
        because=f"{findings[0].reason}; kubelet starts it again: {because}; "
        + (_others(snapshot, container, pod) if sandbox else _AT_ONCE),
        smaller=rung.smaller or SMALLER,
        larger=_LARGEST if sandbox else LARGER,
    )


def _within_back_off(snapshot: Snapshot, container: Container, subject: Subject, wait: float) -> Refusal:
    mine = backoff.find(snapshot, container)
    started = mine.created_at if mine is not None else None
    return Refusal(
        name="kubelet-back-off",
        because=f"it is attempt {mine.attempt if mine else '?'}, started a short time ago: kubelet would leave it down"
        f" for up to {wait:.0f} s",
        ends=f"{backoff.FORGOTTEN_AFTER / 60:.0f} min after its start, when kubelet forgets the back-off",
        ends_at=started + backoff.FORGOTTEN_AFTER if started is not None else None,
        subject=subject,
    )


def _others(snapshot: Snapshot, container: Container, pod: RuntimePod) -> str:
    """What else ends with the sandbox."""
    listed = snapshot.runtime.containers if snapshot.runtime else ()
    names = sorted({one.name for one in listed if one.sandbox_id == pod.sandbox_id and one.running})
    others = [name for name in names if name != container.name]
    return f"with it the pod's {', '.join(others) or 'sandbox'} and its init containers are started again"


def _runtime_pod(snapshot: Snapshot, container: Container) -> Optional[RuntimePod]:
    runtime = snapshot.runtime
    if runtime is None:
        return None
    sandbox = next((one.sandbox_id for one in runtime.containers if one.id == container.id and one.running), None)
    return next((pod for pod in runtime.pods if pod.sandbox_id == sandbox), None)

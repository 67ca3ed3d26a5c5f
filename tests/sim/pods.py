# SPDX-License-Identifier: Apache-2.0
"""Pods and kubelet: who runs, who starts again and when, and what the new container gets.

Source: measured with kubelet 1.34 (a stopped container is there again after 0.4-0.9 s, a second stop soon after waits
10-15 s; restarted without its API server kubelet starts nothing); kubernetes/kubernetes pkg/kubelet/kuberuntime
(doBackOff: 10 s, doubling to 5 min, from the end that the runtime tells, which is a stamp of the wall clock) and
client-go/util/flowcontrol/backoff.go (forgotten twice the longest after the last start: at once by the monotonic
clock, GC, and at the next end by the wall's, hasExpired)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Callable, Literal, NamedTuple, Optional

from tests.sim.timeline import Timeline, Timer

Return = Literal["fresh", "stale", "never", "pod-deleted"]
FIRST_BACK_OFF, LONGEST_BACK_OFF = 10.0, 300.0
FORGOTTEN_AFTER = 2 * LONGEST_BACK_OFF
_AT_ONCE, _NEW_SANDBOX = 0.7, 14.0
"""Seconds until a container is there again, in its sandbox or in a new one with its init containers."""


class Tree(NamedTuple):
    """A CNI directory as somebody sees it."""

    inode: int
    name: str
    """The deployment that it is of."""
    names: tuple[str, ...]
    serial: int


class Dead(NamedTuple):
    """A container that has ended, as the runtime still lists it."""

    id: str
    sandbox_id: str
    attempt: int
    created_at: float
    finished_at: float


@dataclass
class Subject:
    """A container of a pod, and how kubelet treats it when it ends."""

    name: str
    pod: str
    namespace: str = "kube-system"
    labels: str = "daemon-set"
    """daemon-set, job, none: what tells the restart policy."""
    writable: bool = True
    uid: str = ""
    id: str = ""
    sandbox_id: str = ""
    attempt: int = 0
    runs: bool = True
    shows: int = 0
    """The inode of the CNI directory that its bind is of."""
    serial: int = 0
    """Of its bind's mount."""
    tree: str = ""
    """The deployment that it is of."""
    names: tuple[str, ...] = ()
    """What that directory lists."""
    started: float = 0.0
    created_at: float = 0.0
    """The same by the wall clock of then."""
    ended_at: float = 0.0
    """By the wall clock of then."""
    level: int = 0
    """How often it started again since kubelet forgot."""
    returns: Return = "fresh"
    slow: float = 0.0
    """Seconds more than usual until it is there again."""
    blind: bool = False
    """What it has mounted cannot be told."""
    pod_exists: bool = True
    sandbox_ready: bool = True
    shim: Optional[Tree] = None
    """What its sandbox's shim sees in a mount namespace of its own; None: it sees the host's."""
    dead: Optional[Dead] = None
    timer: Optional[Timer] = None

    @property
    def key(self) -> tuple[str, str]:
        return (self.uid, self.name)


@dataclass
class Kubelet:
    """Starts again what ended, as long as it is active and knows its pods."""

    timeline: Timeline
    subjects: list[Subject]
    bind: Callable[[Subject], None]
    """Gives a new container its bind."""
    shim: Callable[[], Optional[Tree]]
    """What a new sandbox's shim sees, if that is not the host's."""
    changed: Callable[[], None]
    active: bool = True
    api_server: bool = True
    knows_pods: bool = True
    """It has talked to its API server since it was started."""
    has_started_one: bool = False
    """Since it was started; the only trace of that talk that others see."""
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def create_pod(self, subject: Subject) -> None:
        """The pod that the subject is of, with a uid and a sandbox of its own, and its containers' first attempts."""
        siblings = self._of_pod(subject)
        uid, sandbox = f"uid-{next(self._numbers)}-{subject.pod}", self._id("5")
        for one in siblings:
            one.uid, one.sandbox_id, one.attempt, one.level = uid, sandbox, 0, 0
            one.pod_exists = one.sandbox_ready = True
            one.shim, one.dead = self.shim(), None
            one.timer, one.returns = None, "fresh" if one.returns == "pod-deleted" else one.returns
            self._run(one)

    def _id(self, kind: str) -> str:
        return kind + f"{next(self._numbers):063x}"

    def _run(self, subject: Subject) -> None:
        subject.id, subject.runs, subject.timer = self._id("c"), True, None
        subject.started, subject.created_at = self.timeline.now, self.timeline.wall()
        self.bind(subject)
        self.changed()

    def would_start(self) -> bool:
        return self.active and (self.knows_pods or self.api_server)

    def end(self, subject: Subject) -> None:
        """The container ends, for whatever reason; kubelet decides what comes."""
        if not subject.runs:
            return
        self._ended(subject)
        if subject.returns == "pod-deleted":
            self.delete_pod(subject)
            return
        self._consider(subject)

    def _ended(self, subject: Subject) -> None:
        if subject.runs:
            subject.dead = Dead(
                subject.id, subject.sandbox_id, subject.attempt, subject.created_at, self.timeline.wall()
            )
            if self._is_forgotten(subject):
                subject.level = 0
            subject.runs, subject.ended_at = False, self.timeline.wall()
        self.changed()

    def end_sandbox(self, subject: Subject) -> None:
        """The sandbox ends with all its containers; kubelet makes another."""
        for one in self._of_pod(subject):
            self._ended(one)
            one.sandbox_ready = False
            if one.timer is not None:
                one.timer.cancel()
                one.timer = None
        self.changed()
        if subject.returns == "pod-deleted":
            self.delete_pod(subject)
            return
        self._consider(subject)

    def _new_sandbox(self, subject: Subject) -> None:
        subject.timer = None
        if subject.sandbox_ready or not subject.pod_exists or not self.would_start():
            return
        sandbox = self._id("5")
        self.knows_pods = self.has_started_one = True
        for one in self._of_pod(subject):
            one.sandbox_id, one.sandbox_ready, one.shim = sandbox, True, self.shim()
            one.level, one.attempt = one.level + 1, one.attempt + 1
            self._run(one)

    def back_off(self, subject: Subject) -> float:
        """Seconds for which it would be left down if it ended now."""
        if subject.level == 0 or self._is_forgotten(subject):
            return 0.0
        return float(min(FIRST_BACK_OFF * 2 ** (subject.level - 1), LONGEST_BACK_OFF))

    def _is_forgotten(self, subject: Subject) -> bool:
        """Whether kubelet counts its restarts anew if it ends now."""
        ran = self.timeline.now - subject.started, self.timeline.wall() - subject.created_at
        return max(ran) > FORGOTTEN_AFTER

    def may_back_off(self, subject: Subject) -> float:
        """The most that it can be for who sees its attempts, and not that kubelet was restarted and forgot."""
        if subject.attempt == 0 or self.timeline.now - subject.started > FORGOTTEN_AFTER:
            return 0.0
        return float(max(self.back_off(subject), min(FIRST_BACK_OFF * 2 ** (subject.attempt - 1), LONGEST_BACK_OFF)))

    def _consider(self, subject: Subject) -> None:
        if subject.runs or not subject.pod_exists or subject.returns == "never" or not self.would_start():
            return
        if subject.timer is not None and not subject.timer.cancelled:
            return
        if not subject.sandbox_ready:
            subject.timer = self.timeline.call_later(_NEW_SANDBOX + subject.slow, self._new_sandbox, subject)
            return
        back_off = min(FIRST_BACK_OFF * 2 ** (subject.level - 1), LONGEST_BACK_OFF) if subject.level else 0.0
        wait = subject.ended_at + back_off - self.timeline.wall()
        wait = min(wait, subject.started + FORGOTTEN_AFTER - self.timeline.now)
        subject.timer = self.timeline.call_later(max(_AT_ONCE + subject.slow, wait), self._start_again, subject)

    def clock_was_set(self) -> None:
        """What it waits for comes sooner, or later."""
        for subject in self.subjects:
            if subject.timer is not None and subject.sandbox_ready:
                subject.timer.cancel()
                subject.timer = None
                self._consider(subject)

    def _start_again(self, subject: Subject) -> None:
        subject.timer = None
        if subject.runs or not subject.pod_exists or not subject.sandbox_ready or not self.would_start():
            return
        if self.timeline.now - subject.started >= FORGOTTEN_AFTER:
            subject.level = 0  # While it waited.
        subject.level += 1
        subject.attempt += 1
        self.knows_pods = self.has_started_one = True
        self._run(subject)

    def pump(self) -> None:
        """Something is another way now: who may start again?"""
        if self.active and self.api_server:
            self.knows_pods = True
        for subject in self.subjects:
            self._consider(subject)

    def delete_pod(self, subject: Subject) -> None:
        """All containers of the pod end; its controller makes a new one elsewhere in time, if kubelet learns of it."""
        for one in self._of_pod(subject):
            one.runs, one.pod_exists, one.sandbox_ready = False, False, False
            if one.timer is not None:
                one.timer.cancel()
        self.changed()
        self.timeline.call_later(3.0, self._recreate, subject)

    def _of_pod(self, subject: Subject) -> list[Subject]:
        return [one for one in self.subjects if one.pod == subject.pod and one.namespace == subject.namespace]

    def _recreate(self, subject: Subject) -> None:
        if subject.pod_exists:
            return
        if not (self.active and self.api_server):
            self.timeline.call_later(10.0, self._recreate, subject)
            return
        self.create_pod(subject)

    def stop(self) -> None:
        self.active = False
        for subject in self.subjects:
            if subject.timer is not None:
                subject.timer.cancel()
                subject.timer = None
        self.changed()

    def start(self) -> None:
        self.active, self.knows_pods, self.has_started_one = True, self.api_server, False
        for subject in self.subjects:
            subject.timer = None
        self.changed()
        self.pump()

    def reboot(self, survivor: str = "") -> None:
        """All containers end, but for those of this name; kubelet starts them again once it runs."""
        for subject in self.subjects:
            if subject.timer is not None:
                subject.timer.cancel()
            if subject.runs and subject.name == survivor:
                subject.timer, subject.level = None, 0
                continue
            subject.timer, subject.runs, subject.level = None, False, 0
            subject.shim, subject.dead, subject.sandbox_ready = None, None, subject.pod_exists
            subject.ended_at = self.timeline.wall()
            if subject.returns == "never":
                subject.returns = "fresh"
        self.active, self.knows_pods = False, False
        self.changed()

# SPDX-License-Identifier: Apache-2.0
"""A node in memory: `remediation.world.World` with a kubelet that starts stopped containers again, a clock that only
looks and sleep move, live switches, and a hook at each moment at which a crash would matter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from ostreewatchd.ledger import Ledger
from ostreewatchd.model import Daemon, History, Snapshot, Step, Switch
from tests.unit import worlds
from tests.unit.worlds import BOOTED_AT, CNI, HOST, RUNTIME, there

Return = Literal["fresh", "stale", "never", "pod-deleted"]
Hook = Callable[[str], None]


class Crash(BaseException):
    """SIGKILL or power loss at this very moment."""


def quiet(_: str) -> None:
    """The hook that does nothing."""


@dataclass
class Subject:
    """A token writer of a DaemonSet, and how kubelet treats it when it ends."""

    name: str
    comes_back: Return = "fresh"
    delay: float = 0.7
    attempt: int = 0
    shows: int = 0
    """The generation of the CNI directory that its bind is of."""
    serial: int = 0
    started: float = 1000.0
    starts_at: float | None = None
    """When kubelet starts it again; None while it runs or if that will never be."""
    runs: bool = True
    pod_exists: bool = True
    shim: int | None = None
    """The generation that its sandbox's shim sees, in a mount namespace of its own; None: the host's."""
    sandbox_up: bool = True
    new_sandbox: Return = "fresh"
    """What comes of it when its sandbox is stopped."""


@dataclass
class Node:
    """The world. Generation n of the CNI directory has inode 1000 + n."""

    subjects: list[Subject]
    hook: Hook = quiet
    generation: int = 0
    clock: float = 50_000.0
    host_serial: int = 10
    stops: Counter[tuple[int, str]] = field(default_factory=Counter)
    """How often a running container was really stopped, by generation and name."""
    sandbox_stops: Counter[tuple[int, str]] = field(default_factory=Counter)
    """How many of these were of its sandbox."""
    requests: list[str] = field(default_factory=list)
    stop_effect: Callable[[Subject], str] | None = None
    """What the runtime answers instead, or raises; the container is stopped before that."""
    look_cost: float = 0.02
    """Seconds that a look takes."""
    deaf: bool = False
    """The runtime does not do what it is asked."""
    deaf_to: str = ""
    """Only of this one it does not."""
    change: Callable[[worlds.World], worlds.World] = staticmethod(lambda built: built)
    """What else is the matter with the node at each look."""
    has_directories: bool = False
    """Kubelet tells of which pods it keeps a directory."""
    boots: int = 0
    serials: dict[int, int] = field(default_factory=dict)
    """Of the mounts that are covered now, by generation."""
    _serial: int = 100

    def __post_init__(self) -> None:
        for subject in self.subjects:
            subject.serial = self._next_serial()

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def switch(self) -> None:
        """A live switch: the CNI directory is another one from here on."""
        self.serials[self.generation] = self.host_serial
        self.generation += 1
        self.host_serial = self._next_serial()

    def roll_back(self) -> None:
        """What the last switch mounted is unmounted again: the directory before is there as it was, mount and all."""
        self.generation -= 1
        self.host_serial = self.serials[self.generation]

    def reboot(self) -> None:
        """Everything is started anew, on what is there now."""
        self.boots += 1
        for subject in self.subjects:
            subject.shim = None
            if subject.pod_exists:
                self._start(subject)

    # --- remediation.world.World

    def look(self, history: History, *, deep: bool) -> Snapshot:
        self.hook("look")
        self.clock += self.look_cost
        self._kubelet()
        built = worlds.world().live(fingerprint=f"generation {self.generation}, boot {self.boots}")
        built.host(CNI, there(1000 + self.generation, serial=self.host_serial, born=BOOTED_AT + 1))
        for subject in self.subjects:
            namespace = HOST if subject.shim is None else RUNTIME
            if subject.shim is not None:
                built.host(CNI, there(1000 + subject.shim, serial=5), namespace=namespace)
            if subject.runs:
                built.container(subject.name, attempt=subject.attempt, started=subject.started, binder=namespace)
                built.bind(CNI, there(1000 + subject.shows, serial=subject.serial))
        built.part(
            history=history, daemons=(Daemon(kind="runtime", name="containerd", pid=800, mount_namespace=HOST),)
        )
        if self.has_directories:
            pods = tuple(f"uid-of-{subject.name}-x1" for subject in self.subjects if subject.pod_exists)
            built.kubelet(pid=900, pods=pods)
        self.change(built)
        if not deep:
            built.not_asked()
        return self._with_sandboxes(built.snapshot())

    def _with_sandboxes(self, snapshot: Snapshot) -> Snapshot:
        """A sandbox stays while its container is being restarted."""
        if snapshot.runtime is None or snapshot.runtime.problem:
            return snapshot
        whole = worlds.world()
        for subject in self.subjects:
            if subject.pod_exists:
                whole.container(subject.name)
                if not subject.sandbox_up:
                    whole.sandbox_ends(subject.name)
        runtime = whole.snapshot().runtime
        assert runtime is not None
        return msgspec.structs.replace(
            snapshot, runtime=msgspec.structs.replace(snapshot.runtime, pods=runtime.pods)
        )  # fmt: skip

    def stop(self, step: Step, socket: str) -> str:
        self.hook("before-stop")
        self.requests.append(step.subject.container_id)
        for subject in self.subjects:
            if (
                subject.runs
                and worlds.hex_id(f"{subject.name}-x1", subject.name, subject.attempt) in self.requests[-1]
            ):
                if not self.deaf and subject.name != self.deaf_to:
                    if step.kind == "stop-sandbox":
                        self.sandbox_stops[self.generation, subject.name] += 1
                        subject.shim, subject.comes_back = None, subject.new_sandbox
                        subject.delay = 14.0
                        subject.sandbox_up = subject.new_sandbox != "never"
                    self._end(subject)
                if self.stop_effect is not None:
                    return self.stop_effect(subject)
        self.hook("after-stop")
        return "stopped"

    def monotonic(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        self.clock += seconds

    # --- kubelet

    def _end(self, subject: Subject) -> None:
        self.stops[self.generation, subject.name] += 1
        subject.runs = False
        if subject.comes_back == "pod-deleted":
            subject.pod_exists = False
        elif subject.comes_back != "never":
            subject.starts_at = self.clock + subject.delay

    def restart(self, name: str) -> None:
        """Somebody else restarts it: a script, kubelet, a person."""
        for subject in self.subjects:
            if subject.name == name:
                self._start(subject)

    def _kubelet(self) -> None:
        for subject in self.subjects:
            if not subject.runs and subject.starts_at is not None and subject.starts_at <= self.clock:
                self._start(subject)

    def _start(self, subject: Subject) -> None:
        subject.runs, subject.starts_at = True, None
        subject.attempt += 1
        subject.started = self.clock
        subject.serial = self._next_serial()
        if subject.comes_back != "stale":
            subject.shows = self.generation if subject.shim is None else subject.shim


class CrashingLedger(Ledger):
    """The real ledger, with the hook before and after each durable write."""

    def __init__(self, path: str, hook: Hook) -> None:
        self._hook = hook
        super().__init__(path)

    def record_switch(
        self, fingerprint: str, boot_id: str, deployment: str, boottime: float, root: str = ""
    ) -> Switch:
        self._hook("before-switch")
        switch = super().record_switch(fingerprint, boot_id, deployment, boottime, root)
        self._hook("after-switch")
        return switch

    def intend(self, switch: Switch, step: Step) -> int:
        self._hook("before-intent")
        act = super().intend(switch, step)
        self._hook("after-intent")
        return act

    def conclude(self, act: int, outcome: str, proof: str, failure: str = "") -> None:
        self._hook("before-outcome")
        super().conclude(act, outcome, proof, failure)
        self._hook("after-outcome")


class CrashAt:
    """A hook that crashes at the n-th moment, counted over all runs, and tells which moment that was."""

    def __init__(self, *moments: int) -> None:
        self._moments = set(moments)
        self.count = 0
        self.at: list[str] = []

    def __call__(self, name: str) -> None:
        self.count += 1
        if self.count in self._moments:
            self.at.append(name)
            raise Crash(name)

# SPDX-License-Identifier: Apache-2.0
"""The whole node: host, pods, runtime, disk, units, and the product's two programs as processes that can be killed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable, Optional

from ostreewatchd.ledger import pausing
from ostreewatchd.model import Flag, History, Live, Pause, Settings, Snapshot, Step, Window
from ostreewatchd.peers.errors import PeerError
from ostreewatchd.remediation import program
from ostreewatchd.remediation.loop import Result
from ostreewatchd.report.journal import Kind
from ostreewatchd.watcher import Watcher
from tests.sim.disk import Disk
from tests.sim.eyes import Eyes
from tests.sim.host import Host
from tests.sim.ledgers import Reader
from tests.sim.pods import Kubelet, Subject
from tests.sim.runtime import Runtime
from tests.sim.timeline import Loop, Timeline, WallClock
from tests.sim.truth import Broken, Seen, Truth

LONGEST_RUN = 900.0
"""TimeoutStartSec= of the remediation's unit."""
_LOOK, _WRITE = 0.02, 0.005
"""Seconds."""


class Killed(BaseException):
    """SIGKILL to the process that runs."""


class PowerCut(BaseException):
    """All processes are gone at once."""


@dataclass
class Process:
    """One remediation."""

    began: float
    dead: bool = False
    config: Settings = field(default_factory=Settings)
    last: Optional[Seen] = None
    deep: Optional[Seen] = None
    """What was true at its last looks."""
    switches: tuple[float, ...] = ()
    """When those were committed that it knows from a ledger which is lost meanwhile."""
    intended: dict[str, float] = field(default_factory=dict)
    """Container id: when this process committed the intent."""
    could_not: set[tuple[str, str]] = field(default_factory=set)
    """What the runtime refused to stop."""


class Hands:
    """`remediation.world.World` of one process: each verb is a moment before and after."""

    def __init__(self, node: Node, process: Process) -> None:
        self._node, self._process = node, process

    def look(self, history: History, *, deep: bool) -> Snapshot:
        node = self._node
        node.moment("look:deep" if deep else "look:shallow")
        node.timeline.advance(_LOOK)
        began = node.truth.facts()
        snapshot = node.eyes.look(history, deep=deep)
        node.truth.looked(self._process, snapshot, began, deep=deep)
        node.moment("looked:deep" if deep else "looked:shallow")
        return snapshot

    def stop(self, step: Step, socket: str) -> str:
        node = self._node
        node.moment("before:stop")
        node.truth.stopping(self._process, step)
        try:
            return node.runtime.stop(step)
        except PeerError:
            self._process.could_not.add(step.subject.key)
            raise
        finally:
            node.moment("after:stop")

    def monotonic(self) -> float:
        return self._node.timeline.boottime()

    def sleep(self, seconds: float) -> None:
        self._node.timeline.advance(seconds)
        self._node.moment("slept")


class Journal:
    """The journal of both programs: the last lines, for who reads a failure."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.lines: list[str] = []

    def report(self, kind: Kind, message: str, **_: object) -> None:
        self._node.log(f"{kind.name.lower()}: {message}")
        if "a fault of the program" in message:
            raise Broken("12", message)

    def close(self) -> None:
        return


class Notifier:
    """sd_notify of a watcher that nobody supervises."""

    watchdog = 0.0

    def status(self, text: str) -> None:
        return

    def alive(self) -> None:
        return


@dataclass
class Shape:
    """What kind of node it is."""

    serials: bool = True
    proof: float = 20.0
    knew_before: bool = True
    """The product ran before the first switch."""
    per_switch: int = 20
    per_hour: int = 40
    apps: tuple[str, ...] = ()
    """Further containers: job, none (no label tells), reader (read-only)."""


@dataclass
class Node:
    """The node, switched on and quiet."""

    shape: Shape
    path: str
    mode: str = "heal"
    windows: tuple[Window, ...] = ()
    installed: bool = True
    wanted: bool = False
    tracing: bool = False
    trace: list[str] = field(default_factory=list)
    moments: int = 0
    on_moment: Callable[[str], None] = staticmethod(lambda _: None)
    verbose: bool = False

    def __post_init__(self) -> None:
        self.timeline = Timeline()
        self.clock = WallClock(self.timeline)
        self.processes: list[Process] = []
        self.unit_active = False
        self.hears = True
        self._watching = 0
        self.lines: list[str] = []
        self.journal = Journal(self)
        self.disk = Disk(self.path, self._disk_moment, self._committed)
        self.reader = Reader(self.disk)
        self.subjects = [
            Subject("calico-node", "calico-node-x1"),
            Subject("kube-multus", "kube-multus-ds-x2"),
            Subject("multus-watcher", "kube-multus-ds-x2"),
            *(_app(kind) for kind in self.shape.apps),
        ]
        self.kubelet = Kubelet(self.timeline, self.subjects, self._bind, lambda: self.runtime.keeps, self._changed)
        self.runtime = Runtime(self.timeline, self.kubelet)
        self.host = Host(self.timeline, self._changed, self._switched, self._wake, self._stop_by_name)
        self.eyes = Eyes(self.host, self.kubelet, self.runtime, serials=self.shape.serials)
        self.eyes.middle = lambda: self.moment("look:middle")
        self.truth = Truth(self)
        self.runtime.before_effect = self.truth.stopped
        self.watcher: Optional[Watcher] = None
        self._loop: Optional[Loop] = None
        self._watcher_tree = ""
        for pod in dict.fromkeys(one.pod for one in self.subjects):
            self.kubelet.create_pod(next(one for one in self.subjects if one.pod == pod))
        self.host.booted.born -= 40_000.0
        self.host.booted.made -= 40_000.0
        for subject in self.subjects:
            subject.started -= 1000.0
            subject.created_at -= 1000.0

    # --- what the parts tell each other

    def log(self, text: str) -> None:
        line = f"{self.timeline.now - 50_000.0:9.3f} {text}"
        self.lines.append(line)
        if self.verbose:
            print(line)

    def _changed(self) -> None:
        if hasattr(self, "eyes"):
            self.eyes.changed()

    def _switched(self) -> None:
        self.log(f"(switch {self.host.epoch}: /etc is of {self.host.etc[-1].deployment.number})")

    def _wake(self) -> None:
        if self.watcher is not None and self.hears:
            self.watcher.mounts_changed()

    def _bind(self, subject: Subject) -> None:
        if not (subject.returns == "stale" and subject.shows):
            tree = subject.shim or self.host.tree()
            subject.shows, subject.tree, subject.names = tree.inode, tree.name, tree.names
        subject.serial = self.host.serial()
        self.log(f"({subject.name} runs, attempt {subject.attempt}, shows {subject.shows})")

    def _stop_by_name(self, name: str) -> None:
        """The script's `crictl stop`: of containers that run, and its failures are only logged."""
        for subject in self.subjects:
            if subject.name == name and subject.runs and self.runtime.mode in ("ok", "slow"):
                self.log(f"(the script stops {name})")
                self.kubelet.end(subject)

    def moment(self, name: str) -> None:
        """Something happens that a crash may come before or after."""
        if self.processes and self.processes[-1].dead:
            raise Killed
        self.moments += 1
        if self.tracing:
            self.trace.append(name)
        self.on_moment(name)

    def _disk_moment(self, name: str) -> None:
        self.moment(name)
        if name.startswith("before:"):
            self.timeline.advance(_WRITE)

    def _committed(self, content: tuple[str, list[Any]]) -> None:
        self.truth.committed(content)

    # --- the units

    def ask(self) -> None:
        """The file that the path unit waits for."""
        self.moment("before:ask")
        self.wanted = True
        self.timeline.call_later(0.05, self._path_unit)
        self.moment("after:ask")

    def _path_unit(self) -> None:
        if self.wanted and not self.unit_active and self.eyes.system != "stopping" and self.watcher is not None:
            self.unit_active = True
            self.wanted = False
            before = self.host.started_anew
            try:
                if self.installed:
                    self.remediate()
            finally:
                if self.host.started_anew == before:
                    self.unit_active = False
            self.timeline.call_later(0.05, self._path_unit)
            if self._watcher_tree != self.host.usr[-1].deployment.name:
                self.timeline.call_later(0.2, self.start_watcher)

    def remediate(self) -> Optional[Result]:
        """One remediation, as the unit or a person starts it."""
        process = Process(self.timeline.now)
        self.processes.append(process)
        config = self.config()
        self.truth.began(process, config)
        try:
            result = program.run(
                self.journal,  # type: ignore[arg-type]
                config,
                self.path,
                told_path=self.path + ".told",
                world=Hands(self, process),
            )
            self.log(f"[{result.status}: {result.summary}; {[one.name for one in result.plan.refusals]}]")
            self.truth.ended(process, result)
        except program.AlreadyRunning:
            self.log("[another one runs]")
        except Killed:
            self.log("[killed]")
        except Exception as error:
            raise Broken("12", f"the remediation raised {type(error).__name__}: {error}") from error
        else:
            return result
        finally:
            self.processes.pop()
        return None

    def config(self) -> Settings:
        return Settings(
            mode=self.mode,
            proof=self.shape.proof,
            settle_cap=60.0,
            windows=self.windows,
            per_switch=self.shape.per_switch,
            per_hour=self.shape.per_hour,
        )  # type: ignore[arg-type]

    def start_watcher(self) -> None:
        """A new watcher in place of the one that runs."""
        self.stop_watcher()
        self._loop = Loop(self.timeline)
        self._watcher_tree = self.host.usr[-1].deployment.name
        self.watcher = Watcher(self._loop, self.journal, Notifier(), self.config())  # type: ignore[arg-type]
        self.watcher.gave_up = _GaveUp(self)  # type: ignore[assignment]
        self.watcher._asker._give_up = self.watcher.gave_up.set
        self.watcher.resync()
        # PathExists= is looked at when the path unit starts.
        self.timeline.call_later(0.05, self._path_unit)

    def stop_watcher(self) -> None:
        if self._loop is not None:
            self._loop.close()
        self._loop, self.watcher = None, None

    def pause(self, seconds: float) -> None:
        """A person orders it."""
        now, boottime = self.timeline.wall(), self.timeline.boottime()
        order = Pause(
            since=now, since_boottime=boottime, boot_id=self.host.boot_id, seconds=seconds, who="a test", why="to see"
        )
        pausing.write(os.path.dirname(self.path), order)
        self.disk.version += 1
        self.truth.pause_ordered(seconds)

    def resume(self) -> None:
        pausing.remove(os.path.dirname(self.path))
        self.disk.version += 1
        self.truth.pause_ended()

    def kill(self) -> None:
        """SIGKILL to the innermost remediation that runs, if one does."""
        if self.processes:
            self.processes[-1].dead = True
            raise Killed

    def power_cut(self, *, clean: bool = False) -> None:
        """All stops; half a minute later it is up again."""
        self.log(f"(power off, {'clean' if clean else 'cut'})")
        if not clean:
            self.disk.power_cut()
        self._end_all()
        self.kubelet.reboot()
        self.host.reboot()
        self._begin_anew()

    def _end_all(self) -> None:
        for process in self.processes:
            process.dead = True
        self.stop_watcher()
        self.wanted = self.unit_active = False
        self.eyes.system, self.eyes.next_root = "running", ""
        self.runtime.keeps = None

    def _begin_anew(self) -> None:
        self._changed()
        self.timeline.call_later(10.0, self.kubelet.start)
        self.timeline.call_later(12.0, self.start_watcher)
        raise PowerCut

    def reboot(self) -> None:
        """A clean one: what still runs is ended first."""
        self._stop_all(lambda: self.power_cut(clean=True))

    def soft_reboot(self, survivor: str) -> None:
        """All of userspace is ended and begins anew, but for a container whose unit survives the final kill signal."""
        if self.host.newest in (self.host.booted, self.host.cni):
            self.host.deploy(())
        self.eyes.next_root = self.host.newest.name
        self._stop_all(lambda: self._soft_reboot(survivor))

    def _soft_reboot(self, survivor: str) -> None:
        self.log("(soft reboot)")
        self._end_all()
        self.kubelet.reboot(survivor)
        self.host.soft_reboot()
        self._begin_anew()

    def _stop_all(self, then: Callable[[], None]) -> None:
        self.eyes.system = "stopping"
        self._changed()
        before = self.host.started_anew
        self.timeline.call_later(3.0, lambda: self.kill() if self.host.started_anew == before else None)
        self.timeline.call_later(5.0, lambda: then() if self.host.started_anew == before else None)

    # --- what the watcher sees by; patched into its module

    @contextlib.contextmanager
    def host_for_watcher(self, _: object) -> Iterator[Node]:
        yield self

    def glance(self, host: object, config: Settings) -> Glance:
        self.timeline.advance(0.001)
        return Glance(self.eyes.live(), self.eyes.flags())

    def look_on(self, first: Glance, looker: object, history: History) -> Snapshot:
        self.timeline.advance(_LOOK)
        return self.eyes.look_once(history, first.live, first.flags, deep=False)

    def advance_to(self, at: float) -> None:
        """Let time pass, through power cuts."""
        while self.timeline.now < at:
            try:
                self.timeline.advance(at - self.timeline.now)
            except PowerCut:
                self.processes.clear()


@dataclass(frozen=True)
class Glance:
    """What the watcher's decisions need of `observe.look.Glance`."""

    live: Live
    flags: tuple[Flag, ...]


class _GaveUp:
    """The watcher's last word: systemd starts it again."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def set(self) -> None:
        self._node.log("(the watcher gave up)")
        self._node.timeline.call_later(1.0, self._node.start_watcher)

    def is_set(self) -> bool:
        return False


def _app(kind: str) -> Subject:
    if kind == "reader":
        return Subject("reader", "reader-x1", namespace="default", writable=False)
    return Subject(f"app-{kind}", f"app-{kind}-x1", namespace="default", labels=kind)


__all__ = ["Killed", "Node", "PowerCut", "Process", "Shape"]

# SPDX-License-Identifier: Apache-2.0
"""The host's tree: deployments, what is mounted over /usr and /etc, the flags, and the platform's own script.

Source: starlingx/update (ostree_utils.py mount_new_deployment: the binds and their order; software_agent.py: flags;
post-install.sh: `crictl stop` of three names); systemd-soft-reboot.service(8)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Callable

from tests.sim.pods import Tree
from tests.sim.timeline import Timeline

PENDING_FLAG = "/run/mount_pending"
SCRIPT_FLAG = "/run/software_run_post_install"
SCRIPT_NAMES = ("calico-node", "kube-multus", "multus-watcher")
CONFLIST = "10-calico.conflist"


@dataclass
class Deployment:
    """One tree with a CNI directory of its own: a copy, made when it was deployed."""

    number: int
    inode: int
    born: float
    """Of the CNI directory, by the wall clock of then."""
    names: tuple[str, ...]
    made: float
    """The same moment on the timeline, which nobody steps."""

    @property
    def name(self) -> str:
        return f"debian-{f'{self.number:x}':0<64}.0"


@dataclass
class Mounted:
    """A deployment's tree, seen at /usr or /etc."""

    deployment: Deployment
    serial: int


@dataclass
class Host:
    """What the kernel has, and files in /run."""

    timeline: Timeline
    changed: Callable[[], None]
    switched: Callable[[], None]
    """What /usr, /etc or the CNI directory is, is another one now."""
    wake: Callable[[], None]
    """PID 1's mount table changed."""
    stop_by_name: Callable[[str], None]
    """`crictl stop` of all containers of a name."""
    boot: int = 1
    soft_reboots: int = 0
    """In this boot."""
    started_anew: int = 0
    """How often all of userspace was, with or without the kernel."""
    flags: dict[str, float] = field(default_factory=dict)
    """Path: since when."""
    epoch: int = 0
    """Switches so far."""
    epoch_began: float = 0.0
    script_run: int = 0
    """The number of the installation that runs; another one ends it."""

    def __post_init__(self) -> None:
        self._serials = itertools.count(100)
        self._inodes = itertools.count(1000)
        first = self.deploy(())
        self.booted = first
        self.usr, self.etc = [Mounted(first, self.serial())], [Mounted(first, self.serial())]

    def serial(self) -> int:
        return next(self._serials)

    def deploy(self, lost: tuple[str, ...]) -> Deployment:
        """A new tree, whose /etc is a copy of the booted one's."""
        inode = next(self._inodes)
        names = tuple(name for name in (CONFLIST, "calico-kubeconfig") if name not in lost)
        self.newest = Deployment(inode - 1000, inode, self.timeline.wall(), names, self.timeline.now)
        return self.newest

    @property
    def boot_id(self) -> str:
        return f"6f0e2a34-0000-4000-8000-{self.boot:012d}"

    @property
    def cni(self) -> Deployment:
        """Whose CNI directory /etc/cni/net.d is."""
        return self.etc[-1].deployment

    def tree(self) -> Tree:
        """The CNI directory as PID 1 sees it."""
        cni = self.cni
        return Tree(cni.inode, cni.name, cni.names, self.etc[-1].serial)

    @property
    def fingerprint(self) -> str:
        return f"{self.boot_id} {self.usr[-1].serial} {self.etc[-1].serial} {self.cni.inode}"

    @property
    def partial(self) -> bool:
        return self.usr[-1].deployment is not self.etc[-1].deployment

    @property
    def mounting(self) -> bool:
        """A switch is under way, and nobody who looks can miss it."""
        return PENDING_FLAG in self.flags

    def _moved(self) -> None:
        self.epoch += 1
        self.epoch_began = self.timeline.now
        self.changed()
        self.switched()
        self.wake()

    def mount(self, stack: list[Mounted], deployment: Deployment) -> None:
        stack.append(Mounted(deployment, self.serial()))
        self._moved()

    def unmount(self) -> None:
        """The newest mounts of /usr and /etc are taken away again."""
        if len(self.usr) > 1:
            self.usr.pop()
            self._moved()
        if len(self.etc) > 1:
            self.etc.pop()
            self._moved()

    def replace_directory(self) -> None:
        """The CNI directory is made anew in place."""
        old = self.cni
        old.inode, old.born = next(self._inodes), self.timeline.wall()
        old.made = self.timeline.now
        self._moved()

    def flag(self, path: str, there: bool) -> None:
        if there:
            self.flags[path] = self.timeline.now
        else:
            self.flags.pop(path, None)
        self.changed()

    def install(self, script: str, gap: float, *, half: int = 0, lost: tuple[str, ...] = (), to: str = "") -> None:
        """An in-service patch, step by step. `script`: when its `crictl stop` runs: none, before, during, after,
        twice. `half`: the number of steps after which it fails and leaves all as it is; 0: it does not. `to`: an
        older deployment instead of a new one ("booted")."""
        self.script_run += 1
        new = self.booted if to == "booted" else self.deploy(lost)
        stops = [lambda name=name: self.stop_by_name(name) for name in SCRIPT_NAMES]
        steps: list[Callable[[], None]] = [
            lambda: self.flag(PENDING_FLAG, True),
            *(stops if script == "before" else ()),
            lambda: self.mount(self.usr, new),
            *(stops if script == "during" else ()),
            lambda: self.mount(self.etc, new),
            self.wake,  # The third bind, over the booted deployment's own directory: /etc does not change.
            lambda: self.flag(PENDING_FLAG, False),
            lambda: self.flag(SCRIPT_FLAG, True),
            *(stops if script in ("after", "twice") else ()),
            *(stops if script == "twice" else ()),
            lambda: self.flag(SCRIPT_FLAG, False),
        ]
        self._go_on(steps[: half or None], gap, self.script_run)

    def _go_on(self, steps: list[Callable[[], None]], gap: float, run: int) -> None:
        if not steps or run != self.script_run:
            return
        self.timeline.call_later(gap, self._go_on, steps[1:], gap, run)
        steps[0]()

    def finish(self) -> None:
        """Whatever installation was left half done is completed by hand."""
        self.script_run += 1
        self.flags.clear()
        if self.partial:
            target = self.usr[-1].deployment
            self.mount(self.etc, target)
        self.changed()

    def reboot(self) -> None:
        """Into the newest deployment."""
        self.script_run += 1
        self.boot += 1
        self.soft_reboots, self.started_anew = 0, self.started_anew + 1
        self.timeline.booted = self.timeline.now
        self.flags.clear()
        self._begin_in_newest()

    def soft_reboot(self) -> None:
        """Userspace begins anew in the newest deployment: same kernel, same boot id, and what is in /run stays."""
        self.script_run += 1
        self.soft_reboots, self.started_anew = self.soft_reboots + 1, self.started_anew + 1
        self._begin_in_newest()

    def _begin_in_newest(self) -> None:
        self.booted = self.newest
        self.usr, self.etc = [Mounted(self.booted, self.serial())], [Mounted(self.booted, self.serial())]
        self._moved()

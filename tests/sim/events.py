# SPDX-License-Identifier: Apache-2.0
"""What may befall a node, each with a name: the words of a history, which is a node's shape and events, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Callable

import msgspec

from ostreewatchd.model import Window
from tests.sim.host import CONFLIST, PENDING_FLAG
from tests.sim.node import Node, Shape
from tests.sim.pods import Subject, Tree


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that happens at a time, or at the first moment of a name from that time on."""

    at: float
    """Seconds from the history's begin."""
    do: str
    on: str = ""
    """A moment's name: see node.Node.moment. Empty: at the time itself."""
    nth: int = 1
    """Which of the moments of that name."""
    who: str = ""
    """A container's name."""
    how: str = ""
    value: float = 0.0


class History(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node and what befalls it."""

    why: str = ""
    """What it shows, for a kept one."""
    seed: int = -1
    """Of the random history in which it was found."""
    serials: bool = True
    knew_before: bool = True
    proof: float = 20.0
    per_switch: int = 20
    per_hour: int = 40
    apps: tuple[str, ...] = ()
    events: tuple[Event, ...]

    def shape(self) -> Shape:
        return Shape(
            serials=self.serials,
            proof=self.proof,
            knew_before=self.knew_before,
            per_switch=self.per_switch,
            per_hour=self.per_hour,
            apps=self.apps,
        )


def load(path: Path) -> History:
    return msgspec.json.decode(path.read_bytes(), type=History)


def save(path: Path, history: History) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(history), indent=1) + b"\n")


Do = Callable[[Node, Event], None]


def _named(node: Node, event: Event) -> Subject:
    return next((one for one in node.subjects if one.name == event.who), node.subjects[0])


def _install(node: Node, event: Event) -> None:
    script, _, more = event.how.partition(" ")
    words = more.split()
    half = next((int(word[4:]) for word in words if word.startswith("half")), 0)
    lost = (CONFLIST,) if "lost" in words else ()
    to = "booted" if "booted" in words else ""
    node.host.install(script or "none", max(event.value, 0.02), half=half, lost=lost, to=to)


def _returns(node: Node, event: Event) -> None:
    _named(node, event).returns = event.how  # type: ignore[assignment]


def _slow(node: Node, event: Event) -> None:
    _named(node, event).slow = event.value


def _blind(node: Node, event: Event) -> None:
    _named(node, event).blind = event.how != "off"
    node.eyes.changed()


def _exits(node: Node, event: Event) -> None:
    node.kubelet.end(_named(node, event))


def _crash_loop(node: Node, event: Event) -> None:
    """It has started again so often, and lately. (Not from one look of a remediation to the next.)"""
    if node.processes:
        return
    subject = _named(node, event)
    subject.level = subject.attempt = int(event.value)
    subject.dead = None
    ago = min(20.0, node.timeline.now - subject.started)
    if subject.shows != node.host.cni.inode:
        # It shows the old directory, so it was started before the switch.
        ago = max(ago, node.timeline.now - node.host.epoch_began + 1.0)
    subject.started, subject.created_at = node.timeline.now - ago, node.timeline.wall() - ago
    node.eyes.changed()


def _shim(node: Node, event: Event) -> None:
    """The shim of its sandbox, or of each, is left with what the host has now, or was left with what was booted."""
    tree = node.host.tree()
    if event.how == "booted":
        booted = node.host.booted
        tree = Tree(booted.inode, booted.name, booted.names, node.host.etc[0].serial)
    for subject in node.subjects:
        mine = event.who in ("", subject.name) or subject.pod == _named(node, event).pod
        if mine and subject.shim is None:  # One that was left behind never catches up.
            subject.shim = tree
    node.eyes.changed()


def _runtime_namespace(node: Node, event: Event) -> None:
    """The runtime is left with what the host has now; what it has started already is not."""
    node.runtime.keeps = None if event.how == "off" else node.host.tree()
    node.eyes.changed()


def _api_server(node: Node, event: Event) -> None:
    node.kubelet.api_server = event.how != "away"
    node.eyes.changed()
    node.kubelet.pump()


def _kubelet(node: Node, event: Event) -> None:
    if event.how in ("stop", "restart"):
        node.kubelet.stop()
    if event.how in ("start", "restart"):
        node.kubelet.start()


def _runtime(node: Node, event: Event) -> None:
    node.runtime.mode = event.how or "ok"
    node.eyes.changed()


def _runtime_lists(node: Node, event: Event) -> None:
    node.runtime.lists = event.how != "away"
    node.eyes.changed()


def _systemd(node: Node, event: Event) -> None:
    node.eyes.system = event.how or "running"
    node.eyes.changed()


def _rpm_ostree(node: Node, event: Event) -> None:
    """It is at work on this, or on nothing, or does not answer."""
    node.eyes.transaction = None if event.how == "silent" else event.how
    node.eyes.changed()


def _clock(node: Node, event: Event) -> None:
    node.timeline.wall_offset += event.value
    node.truth.stepped_at = node.timeline.now
    node.kubelet.clock_was_set()
    node.eyes.changed()


def _mode(node: Node, event: Event) -> None:
    node.mode = event.how or "heal"
    if node.watcher is not None:
        node.watcher.reload()


def _configuration(node: Node, event: Event) -> None:
    """A person, or an installer, removes a file from the CNI directory, or puts it back."""
    names = set(node.host.cni.names) - {CONFLIST}
    node.host.cni.names = tuple(sorted(names if event.how == "away" else names | {CONFLIST}))
    node.eyes.changed()


def _window(node: Node, event: Event) -> None:
    """The one time of the week in which restarts are allowed: it opens in so many seconds, for so many minutes. It
    begins with a minute of the wall clock, of now."""
    monday = 345_600.0  # 1970-01-05
    start = int((node.timeline.wall() + event.value - monday) // 60) % (7 * 24 * 60)
    node.windows = (Window(start=start, minutes=int(event.how)),) if event.how != "off" else ()
    if node.watcher is not None:
        node.watcher.reload()


def _installed(node: Node, event: Event) -> None:
    node.installed = event.how != "away"


def _ledger(node: Node, event: Event) -> None:
    disk = node.disk
    if event.how in ("ok", "readonly", "full"):
        disk.state = event.how
    elif event.how == "lost":
        disk.lose()
    elif event.how == "garbled":
        disk.garble(int(event.value))
    elif event.how == "newer":
        disk.newer()
    elif event.how == "older":
        disk.older()
    if event.how in ("lost", "garbled"):
        node.truth.forget(maybe=event.how == "garbled")


def _hears(node: Node, event: Event) -> None:
    node.hears = event.how != "off"


def _flag(node: Node, event: Event) -> None:
    node.host.flag(event.how or PENDING_FLAG, event.value >= 0)


def _watcher(node: Node, event: Event) -> None:
    """Killed, restarted or upgraded: systemd starts it again."""
    node.stop_watcher()
    node.timeline.call_later(max(0.2, event.value), _start_if_gone, node)


def _start_if_gone(node: Node) -> None:
    if node.watcher is None:
        node.start_watcher()


def _upgrade(node: Node, event: Event) -> None:
    """The package: its units are restarted, and a remediation is ended first if the packager says so."""
    _watcher(node, event)
    if event.how == "kill":
        node.kill()


DO: Mapping[str, Do] = {
    "install": _install,
    "unmount": lambda node, _: node.host.unmount(),
    "replace-directory": lambda node, _: node.host.replace_directory(),
    "flag": _flag,
    "returns": _returns,
    "slow": _slow,
    "blind": _blind,
    "exits": _exits,
    "crash-loop": _crash_loop,
    "shim": _shim,
    "runtime-namespace": _runtime_namespace,
    "pause": lambda node, event: node.pause(event.value),
    "resume": lambda node, _: node.resume(),
    "delete-pod": lambda node, event: node.kubelet.delete_pod(_named(node, event)),
    "configuration": _configuration,
    "api-server": _api_server,
    "kubelet": _kubelet,
    "runtime": _runtime,
    "runtime-lists": _runtime_lists,
    "systemd": _systemd,
    "rpm-ostree": _rpm_ostree,
    "clock": _clock,
    "mode": _mode,
    "installed": _installed,
    "ledger": _ledger,
    "hears": _hears,
    "watcher": _watcher,
    "upgrade": _upgrade,
    "kill": lambda node, _: node.kill(),
    "power-cut": lambda node, _: node.power_cut(),
    "reboot": lambda node, _: node.reboot(),
    "soft-reboot": lambda node, event: node.soft_reboot(event.who),
    "window": _window,
    "ask": lambda node, _: node.ask(),
    "second-copy": lambda node, _: node.remediate() and None,
}


def heal(node: Node) -> None:
    """Everybody else does what he should from here on."""
    node.disk.state = "ok"
    node.runtime.mode, node.runtime.lists = "ok", True
    node.kubelet.api_server, node.installed, node.hears = True, True, True
    if node.eyes.system == "silent":
        node.eyes.system = "running"
    for subject in node.subjects:
        subject.blind, subject.slow = False, 0.0
        if subject.returns != "stale":
            subject.returns = "fresh"
    node.runtime.keeps, node.eyes.transaction = None, ""
    node.resume()
    if node.windows:
        # A last one, which opens by itself.
        _window(node, Event(at=0.0, do="window", value=240.0, how="720"))
    node.host.finish()
    node.eyes.changed()
    if not node.kubelet.active:
        node.kubelet.start()
    node.kubelet.pump()
    if node.mode != "heal":
        node.mode = "heal"
        if node.watcher is not None:
            node.watcher.reload()

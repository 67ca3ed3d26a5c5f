# SPDX-License-Identifier: Apache-2.0
"""Lives through one history, and then lets the world hold still: all that is owed must be cured or refused by name."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Callable, Optional

from ostreewatchd import ledger as ledgers
from tests.sim.bridge import under
from tests.sim.events import DO, Event, History, heal
from tests.sim.node import Node
from tests.sim.settled import unsettled
from tests.sim.truth import Broken

_QUIET_BEFORE = 2.0
_BOUND = 1500.0
"""Seconds of the world holding still within which all must be cured or refused: a resync, the longest pause between
requests, kubelet's longest back-off, a proof each."""
_AFTERWARDS = 70.0
_UNDER_WAY = 5
_STEP = 5.0
_TEMPLATE = "empty.db"

Tune = Callable[[Node], None]


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Where fsync costs nothing, if the machine has such a place."""
    shm = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=shm if os.access(shm, os.W_OK) else None, prefix="sim-") as name:
        yield Path(name)


def _template(place: Path) -> Path:
    """A ledger that the product has made, with nothing in it."""
    path = place / _TEMPLATE
    if not path.exists():
        ledgers.Ledger(str(path)).__exit__()
    return path


class Triggers:
    """Events that wait for a moment."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._waiting: dict[str, list[list[object]]] = defaultdict(list)

    def add(self, event: Event) -> None:
        self._waiting[event.on].append([event.nth, event])

    def __call__(self, name: str) -> None:
        waiting = self._waiting.get(name)
        if not waiting:
            return
        for entry in list(waiting):
            entry[0] -= 1  # type: ignore[operator]
            if entry[0] == 0:
                waiting.remove(entry)
                perform(self._node, entry[1])  # type: ignore[arg-type]


def perform(node: Node, event: Event) -> None:
    node.log(f"* {event.do} {event.who} {event.how} {event.value or ''}".rstrip())
    DO[event.do](node, event)


def replay(history: History, place: Path, tune: Iterable[Tune] = (), *, keep: Optional[list[Node]] = None) -> Node:
    """Raises Broken. `tune` changes the node before it begins; `keep` gets the node, also of a history that fails."""
    path = place / "ledger.db"
    for old in place.iterdir():
        if old.name != _TEMPLATE:
            old.unlink()
    template = _template(place)
    node = Node(history.shape(), str(path))
    if keep is not None:
        keep.append(node)
    with under(node), contextlib.closing(node.disk):
        for one in tune:
            one(node)
        if history.knew_before:
            node.disk.begin_with(template)
            node.start_watcher()
            node.advance_to(node.timeline.now + _QUIET_BEFORE)
        begin = node.timeline.now
        node.log("--- begin")
        triggers = Triggers(node)
        first = node.on_moment

        def on_moment(name: str) -> None:
            first(name)
            triggers(name)

        node.on_moment = on_moment
        last = 0.0
        for event in history.events:
            node.timeline.call_later(event.at, *((triggers.add, event) if event.on else (perform, node, event)))
            last = max(last, event.at)
        if not history.knew_before:
            node.timeline.call_later(last / 2, lambda: node.watcher or node.start_watcher())
        node.advance_to(begin + last + 1.0)
        while node.processes or node.eyes.system == "stopping":
            node.advance_to(node.timeline.now + _STEP)
        node.on_moment = lambda _: None
        node.log("--- the world holds still")
        heal(node)
        if node.watcher is None:
            node.timeline.call_later(15.0, lambda: node.watcher or node.start_watcher())
        _settle(node)
    return node


def _settle(node: Node) -> None:
    end = node.timeline.now + _BOUND
    step = _STEP
    while True:
        node.advance_to(node.timeline.now + step)
        for _ in range(_UNDER_WAY):
            why = unsettled(node, node.reader.read(), _last_run(node))
            if not (node.unit_active or node.wanted):
                break
            node.advance_to(node.timeline.now + 1.0)  # It asks again now and then: nothing is under way in between.
        if not why:
            break
        if node.timeline.now > end:
            raise Broken("12", f"after {_BOUND:.0f} s: {why}")
        step = min(60.0, step * 1.5)
    stops, doubtful = node.truth.stops.copy(), _doubtful(node)
    node.advance_to(node.timeline.now + _AFTERWARDS)
    if any(key not in doubtful for _, key, _ in node.truth.stops - stops):
        raise Broken("6", "all was settled, and something was stopped all the same")


def _doubtful(node: Node) -> set[tuple[str, str]]:
    """Who is older than what the host has, and was refused because nothing told that: something may tell it yet."""
    run = _last_run(node)
    refused = {
        one.subject.container_id for one in (run.refusals if run else ()) if one.name == "started-after-switch"
        and one.subject is not None
    }  # fmt: skip
    stale = node.truth.facts().stale.values()
    return {one.key for one in stale if one.id in refused and one.started < node.host.cni.made}


def _last_run(node: Node) -> Optional[ledgers.Run]:
    try:
        return node.reader.last_run()
    except ledgers.LedgerError:
        return None

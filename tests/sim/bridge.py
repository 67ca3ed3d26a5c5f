# SPDX-License-Identifier: Apache-2.0
"""Puts one simulated node under the product's modules: where they would have the kernel, the disk, the clock, the
units, they have the node's."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import msgspec

from ostreewatchd import asking, watcher
from ostreewatchd.judge import judge
from ostreewatchd.ledger import Ledger, rows
from ostreewatchd.model import Finding, History, Snapshot
from ostreewatchd.remediation import cure, loop, program, proof
from tests.sim.ledgers import Sqlite, remembered, takes_clock, traced
from tests.sim.node import Node


class _Flag:
    """asyncio.Event without a loop."""

    def set(self) -> None:
        return

    def is_set(self) -> bool:
        return False


class _Nothing:
    """What looks for real, and has nothing to look at here."""

    def __init__(self, *_: object, **__: object) -> None:
        return

    def forget(self) -> None:
        return

    @property
    def credentials(self) -> _Nothing:
        return self

    def close(self) -> None:
        return


def _ledger(node: Node) -> Any:
    made = traced(node.disk)
    extra: dict[str, Any] = {}
    if takes_clock():
        from ostreewatchd.ledger import Clock  # type: ignore[attr-defined,unused-ignore]

        extra["clock"] = Clock(node.clock.time, node.timeline.boottime)

    def make(path: str, boot_id: str = "") -> Ledger:
        return made(path, boot_id, **extra)

    return make


_NOT_JUDGED = {"taken_at": 0.0, "taken_boottime": 0.0, "history": History(), "system": None, "runtime": None,
               "kubelet": None, "rpm_ostree": None}  # fmt: skip
"""The past, the time, and who answers, instead of which it has these: there are no tokens here."""


def _judged() -> Any:
    """`judge` is pure: it is not asked again about what it has just judged."""
    known: list[tuple[Snapshot, tuple[Finding, ...]]] = []

    def answer(snapshot: Snapshot) -> tuple[Finding, ...]:
        judged = msgspec.structs.replace(snapshot, **_NOT_JUDGED)
        for one, findings in known:
            if one == judged:
                return findings
        findings = judge(judged)
        known.insert(0, (judged, findings))
        del known[4:]
        return findings

    return answer


@cache
def _ledger_modules() -> tuple[Any, ...]:
    return tuple(module for name, module in sys.modules.items() if f"{name}.".startswith("ostreewatchd.ledger."))


def replacements(node: Node) -> list[tuple[Any, str, Any]]:
    """Each `(module, name, what it has instead)`."""
    numbers = itertools.count(1)
    uuid = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=f"{next(numbers):012d}" + "0" * 20))
    sqlite, clock, judged = Sqlite(node.disk), node.clock, _judged()
    found: list[tuple[Any, str, Any]] = []
    for module in _ledger_modules():
        for attribute, instead in (("sqlite3", sqlite), ("time", clock), ("uuid", uuid)):
            if hasattr(module, attribute):
                found.append((module, attribute, instead))
    found += [
        (rows, "history", remembered(node.disk, rows.history)),
        (program, "time", clock),
        (program, "this_boot", lambda: node.host.boot_id),
        (program, "Ledger", _ledger(node)),
        (asking, "ledger", node.reader),
        (asking, "time", clock),
        (asking, "wanted", SimpleNamespace(ask=node.ask, WANTED="wanted")),
        (watcher, "ledger", node.reader),
        (watcher, "settings", SimpleNamespace(load=lambda: (node.config(), []))),
        (watcher, "Host", node.host_for_watcher),
        (watcher, "glance", node.glance),
        (watcher, "look_on", node.look_on),
        (watcher, "_is_installed", lambda _: node.installed),
        (watcher, "ContainerLooker", _Nothing),
        (watcher, "HostMounts", _Nothing),
        *((module, "judge", judged) for module in (watcher, loop, cure, proof)),
        (watcher, "asyncio", SimpleNamespace(Event=_Flag)),
    ]
    return found


@contextlib.contextmanager
def under(node: Node) -> Iterator[None]:
    """The product's modules live on this node."""
    before: list[tuple[Any, str, Any]] = []
    try:
        for module, name, instead in replacements(node):
            before.append((module, name, getattr(module, name)))
            setattr(module, name, instead)
        yield
    finally:
        for module, name, was in reversed(before):
            setattr(module, name, was)

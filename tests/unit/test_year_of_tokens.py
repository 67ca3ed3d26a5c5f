# SPDX-License-Identifier: Apache-2.0
"""A year of a node whose writers renew what they should, through clocks that are set by 25 hours and back, and through
new signing keys: nothing is ever said. The same year with one writer that stops: it is said, and when.

Virtual time; the looks are the watcher's, and the writers renew as their sources say (platforms/writers.py)."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from ostreewatchd.judge import judge
from ostreewatchd.model import Credential, Finding, Snapshot
from ostreewatchd.observe.clock import Clock
from tests.unit.worlds import CNI, NEW, NOW, UPTIME, world

HOUR, DAY = 3600.0, 86400.0
SETS = (25 * HOUR, -25 * HOUR)


class Writer(NamedTuple):
    """Credentials of `lasts` seconds, asked for `asked`; the file follows a new one by up to `follows`, and the next
    comes after `sleeps`."""

    name: str
    file: str
    lasts: float
    asked: float
    follows: float
    sleeps: Callable[[random.Random], float]
    bound: bool = True


def kubelets(asked: float) -> Callable[[random.Random], float]:
    """At 80 % or a day, up to 10 s later (token_manager.go), and seen by a sync within 90 s."""
    return lambda chance: min(asked * 0.8, DAY) + chance.uniform(0, 100)


WRITERS = (
    Writer("calico", "calico-kubeconfig", DAY, DAY, 0, lambda chance: chance.uniform(6, 12) * HOUR, False),
    Writer("multus", "multus.d/multus.kubeconfig", 365 * DAY, 3607, 60, kubelets(3607)),
    Writer("whereabouts", "whereabouts.d/whereabouts.kubeconfig", 3607, 3607, 1, kubelets(3607)),
    Writer("istio-cni", "ZZZ-istio-cni-kubeconfig", 12 * HOUR, 12 * HOUR, 60, kubelets(12 * HOUR)),
    Writer("multus-thick", "certs.pem", DAY, DAY, 0, lambda chance: chance.uniform(0.7, 0.9) * DAY, False),
)
CONTAINERS = ("calico-node", "kube-multus", "whereabouts", "install-cni")


class Node:
    """Its own clock, and the API server's, which is right."""

    def __init__(self, seed: int, dies: tuple[str, float] = ("", 0.0)) -> None:
        self._chance = random.Random(seed)
        self._dies = dies
        self._ahead = 0.0
        self._clock = Clock()
        built = world().host(CNI, NEW)
        for name in CONTAINERS:
            built.container(name).bind(CNI, NEW)
        self._still: Snapshot = built.snapshot()
        self._files: dict[str, Credential] = {}
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        for writer in WRITERS:
            self._at(0.0, lambda t, writer=writer: self._issue(writer, t))  # type: ignore[misc]
        self._at(self._chance.uniform(5, 15) * DAY, self._set)

    def _at(self, when: float, call: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (when, len(self._events) + int(when * 1000), call))

    def _issue(self, writer: Writer, t: float) -> None:
        if writer.name == self._dies[0] and t >= self._dies[1]:
            return
        self._at(t + self._chance.uniform(0, writer.follows), lambda now: self._write(writer, t, now))
        self._at(t + writer.sleeps(self._chance), lambda later: self._issue(writer, later))

    def _write(self, writer: Writer, issued: float, t: float) -> None:
        self._files[writer.name] = Credential(
            path=f"{CNI}/{writer.file}",
            writer=writer.name,  # type: ignore[arg-type]
            kind="token",
            modified_at=NOW + t + self._ahead,
            issued_at=NOW + issued,
            expires_at=NOW + issued + writer.lasts,
            warn_after=NOW + issued + writer.asked if writer.asked != writer.lasts else None,
            pod_is_here=True if writer.bound else None,
            key_id=f"key-{issued // (30 * DAY)}",
        )

    def _set(self, t: float) -> None:
        """By a day and an hour; and some time later back."""
        self._ahead = self._chance.choice(SETS) if not self._ahead else 0.0
        soon = self._chance.choice((60.0, HOUR, 11 * HOUR, 20 * HOUR, 4 * DAY))
        self._at(t + (soon if self._ahead else self._chance.uniform(2, 20) * DAY), self._set)

    def year(self, days: float = 365.0, every: float = 2 * HOUR) -> Iterator[tuple[float, tuple[Finding, ...]]]:
        """What is found at each look: every so often, and after each event."""
        t, resync = 0.0, 0.0
        while t < days * DAY:
            due = self._events[0][0]
            if due <= resync:
                t, _, call = heapq.heappop(self._events)
                call(t)
                if self._chance.random() < 0.9:
                    continue  # One in ten is looked at at once.
            else:
                t, resync = resync, resync + every
            yield t, judge(self._look(t))

    def _look(self, t: float) -> Snapshot:
        now, boottime = NOW + t + self._ahead, UPTIME + t
        fields = {name: getattr(self._still, name) for name in self._still.__struct_fields__}
        fields.update(taken_at=now, taken_boottime=boottime, credentials=tuple(self._files.values()))
        return Snapshot(**{**fields, "clock_steps": self._clock.steps(now, boottime)})


@pytest.mark.parametrize("seed", [1, 2])
def test_a_healthy_year_is_silent(seed: int) -> None:
    looks = 0
    for t, findings in Node(seed).year():
        assert not findings, (t / DAY, [(one.rule, one.reason) for one in findings])
        looks += 1
    assert looks > 4000


@pytest.mark.parametrize(("name", "late", "over"), [
    ("calico", 13.5 * HOUR, DAY), ("multus", 3607 * 0.8 + 361, 365 * DAY), ("whereabouts", 3607 * 0.95, 3607),
    ("multus-thick", 0.95 * DAY, DAY),
])  # fmt: skip
def test_a_writer_that_stops_is_told(name: str, late: float, over: float) -> None:
    """When it is late and when it is over, by its own schedule and not before; and at the latest when a clock that was
    set meanwhile leaves no doubt."""
    first: dict[str, float] = {}
    node = Node(3, dies=(name, 40 * DAY))
    last = 0.0
    for t, findings in node.year(days=44):
        last = (node._files[name].issued_at or 0.0) - NOW if name in node._files else 0.0
        for one in findings:
            assert t >= last and not one.owed, "nothing of it is restarted unasked"
            first.setdefault(one.rule, t - last)
    slack = 27 * HOUR
    warned = min(first.get("writer-silent", 9e9), first.get("token-expiring", 9e9))
    assert late <= warned <= late + slack or over < 2 * HOUR
    if over < 3 * DAY:
        assert over <= first["token-expired"] <= over + slack
    else:
        assert "token-expired" not in first


def test_small_moves_of_the_clock_are_none_and_many_steps_are_few() -> None:
    clock = Clock()
    for second in range(0, 6000, 300):
        assert clock.steps(1e9 + second * 1.0005, second) == (), "slewed by 500 ppm"
    for number in range(50):
        steps = clock.steps(1e9 + number * 1000.0, 6000.0 + number)
    assert len(steps) <= 16 and steps[-1].boottime == 6049.0
    assert sum(one.by for one in steps) == pytest.approx(
        49 * 1000 - 49 + (1e9 - 6000.0) - (1e9 + 5700 * 0.0005), abs=5
    )

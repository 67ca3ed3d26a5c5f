# SPDX-License-Identifier: Apache-2.0
"""Scans against the floor and against the script (DESIGN §9, the first three goals)."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench import build, world
from bench.node import Node
from bench.table import Row, milliseconds, ratio, times

_COLD, _WARM, _SCRIPT = 1.5, 0.15, 50.0


class Measured(NamedTuple):
    """What one run of bench.inside said."""

    floor: list[float]
    cold: list[float]
    warm: list[float]


def rows(node: Node, repetitions: int, sample: int) -> Iterator[Row]:
    """The figures of one node."""
    count = sum(len(pod.containers) for pod in node.pods)
    node.settle()
    fresh, right = _inside(node, repetitions, set())
    yield times(f"floor, {count} namespaces", fresh.floor)
    yield from _against(count, "", fresh)
    yield right
    node.patch()
    stale, right = _inside(node, max(3, repetitions // 2), world.expected(node.pods))
    node.undo()
    yield from _against(count, ", after the switch", stale)
    yield right
    yield _script(node, sample, fresh)


def _against(count: int, state: str, got: Measured) -> Iterator[Row]:
    for name, these, goal in (("cold", got.cold, _COLD), ("warm", got.warm, _WARM)):
        times_floor = ratio(these, got.floor)
        yield times(
            f"{name} scan, {count} namespaces{state}", these,
            ratio=f"{times_floor:.2f} x floor", goal=f"<= {goal:g} x floor", met=times_floor <= goal,
        )  # fmt: skip


def _inside(node: Node, repetitions: int, expected: set[world.Expected]) -> tuple[Measured, Row]:
    floor = build.program("floor", "floor.c")
    command = [sys.executable, "-B", "-m", "bench.inside", str(floor), str(repetitions)]
    said = json.loads(build.run(["env", f"PYTHONPATH={build.REPOSITORY}", *node.command(command)], timeout=200))
    measured = Measured(said["times"]["floor"], said["times"]["cold"], said["times"]["warm"])
    wrong = _wrong(node, said, expected)
    if wrong:
        print(f"bench: {wrong}", file=sys.stderr)
    what = f"findings: {len(expected)} of {said['containers']} expected stale, nothing else, cold and warm alike"
    return measured, Row(what, "WRONG" if wrong else "right", "", "", "right", not wrong)


def _wrong(node: Node, said: dict[str, Any], expected: set[world.Expected]) -> str:
    """What is wrong with the findings: a fast wrong scan must not win."""
    findings = said["findings"]
    stale = {world.Expected(*one[:4]) for one in findings if one[4] == "stale"}
    others = [one for one in findings if one[4] != "stale"]
    wrong = sorted(stale ^ expected)
    containers = sum(len(pod.containers) for pod in node.pods)
    if wrong or others or not said["same"] or said["problems"] or said["containers"] != containers:
        return (
            f"the scan is wrong: {len(stale)} stale, {len(expected)} expected, {len(wrong)} differ: {wrong[:3]};"
            f" {len(others)} other findings: {others[:3]}; cold and warm agree: {said['same']};"
            f" {said['containers']} containers of {containers}; problems: {said['problems']}"
        )
    return ""


def _script(node: Node, sample: int, fresh: Measured) -> Row:
    """What the script asks at the least: which mount a path is, in each container that has a volume or not."""
    pids = _container_pids(node.root)
    chosen = pids[:: max(1, len(pids) // sample)][:sample]
    loop = "for pid in " + " ".join(map(str, chosen))
    loop += "; do nsenter -t $pid -m findmnt -no SOURCE,FSROOT / >/dev/null || exit 1; done"
    before = time.perf_counter_ns()
    build.run(node.command(["sh", "-c", loop]), timeout=120)
    each = (time.perf_counter_ns() - before) / len(chosen)
    faster = each * len(pids) / statistics.median(fresh.cold)
    return Row(
        f"script, {len(pids)} containers: nsenter findmnt alone ({len(chosen)} measured; crictl inspect not counted)",
        milliseconds(each * len(pids)),
        f"{each / 1e6:.2f} each",
        f"{faster:.0f} x cold",
        f">= {_SCRIPT:g} x cold",
        faster >= _SCRIPT,
    )


def _container_pids(root: Path) -> list[int]:
    """The first processes of containers, by their cgroup."""
    found = []
    for place in (root / "proc").iterdir():
        is_container = place.name.isdecimal() and "/kubepods/" in (place / "cgroup").read_text()
        if is_container and (place / "comm").read_text().strip() != "worker":
            found.append(int(place.name))
    return sorted(found)

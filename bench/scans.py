# SPDX-License-Identifier: Apache-2.0
"""Scans against the floor and against what people do today (DESIGN §9, the first three goals)."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from bench import build, script, world
from bench.node import Node
from bench.table import Row, ratio, times

_COLD, _WARM = 1.5, 0.15


class Measured(NamedTuple):
    """What one run of bench.inside said."""

    floor: list[float]
    cold: list[float]
    warm: list[float]
    used: dict[str, list[float]]
    """The same of the processor, by name: on a machine that does other things, too, that alone tells."""


def rows(node: Node, repetitions: int, sample: int, crictl: Optional[script.Crictl]) -> Iterator[Row]:
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
    yield from script.rows(node, sample, fresh.cold, crictl)


def _against(count: int, state: str, got: Measured) -> Iterator[Row]:
    for name, these, goal in (("cold", got.cold, _COLD), ("warm", got.warm, _WARM)):
        times_floor, of_processor = ratio(these, got.floor), ratio(got.used[name], got.used["floor"])
        yield times(
            f"{name} scan, {count} namespaces{state}", these,
            ratio=f"{times_floor:.2f} x floor ({of_processor:.2f} by the processor's time)",
            goal=f"<= {goal:g} x floor", met=times_floor <= goal,
        )  # fmt: skip


def _inside(node: Node, repetitions: int, expected: set[world.Expected]) -> tuple[Measured, Row]:
    floor = build.program("floor", "floor.c")
    command = [sys.executable, "-B", "-m", "bench.inside", str(floor), str(repetitions)]
    said = json.loads(build.run(["env", f"PYTHONPATH={build.REPOSITORY}", *node.command(command)], timeout=200))
    took, used = ({kind: [pair[which] for pair in pairs] for kind, pairs in said["times"].items()} for which in (0, 1))
    measured = Measured(took["floor"], took["cold"], took["warm"], used)
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

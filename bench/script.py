# SPDX-License-Identifier: Apache-2.0
"""What people do today, measured: for each container `crictl inspect` tells its pid, and `nsenter` with `findmnt`
which mount a path is there (DESIGN §9).

The two halves are measured on what each needs, in one run and one after the other: nsenter on the node, whose
containers have the mounts of a node's; crictl on a real containerd with a few containers. Its cost is the client's and
does not grow with their number, so it is multiplied by the node's."""

from __future__ import annotations

import shlex
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

from bench import build
from bench.node import Node
from bench.runtime import Runtime
from bench.table import Row, milliseconds

_GOAL = 50.0
_PID, _PIDS = "{{.info.pid}}", "{{range .}}{{.info.pid}} {{end}}"
"""Of one container, and of several."""
_ROUNDS = 3


class Crictl(NamedTuple):
    """A crictl and what it may ask."""

    program: Path
    runtime: Runtime


class _Each(NamedTuple):
    """Nanoseconds."""

    alone: float
    """A container, where each is asked for by a crictl of its own."""
    first: float
    """A crictl that is asked for one container."""
    further: float
    """What one more container costs that crictl."""


def rows(node: Node, sample: int, cold: Sequence[float], crictl: Optional[Crictl]) -> Iterator[Row]:
    """The script against the cold scan. Without a crictl, half of it."""
    pids = _container_pids(node.root)
    chosen = pids[:: max(1, len(pids) // sample)][:sample]
    mounts = _nsenter(node, chosen)
    count, scan = len(pids), statistics.median(cold)
    if crictl is None:
        yield _row(f"script, {count} containers: nsenter findmnt alone, no crictl", mounts * count, count, scan)
        return
    asked = _inspect(crictl)
    yield Row("  of it nsenter findmnt, a container", milliseconds(mounts), f"{len(chosen)} measured")
    yield Row("  of it crictl inspect, a container", milliseconds(asked.alone), f"{len(crictl.runtime.ids)} measured")
    yield _row(f"script, {count} containers: crictl inspect and nsenter findmnt for each",
               (asked.alone + mounts) * count, count, scan)  # fmt: skip
    once = asked.first + asked.further * (count - 1) + mounts * count
    yield _row(f"the same with one crictl inspect for all {count}", once, count, scan)._replace(goal="", met=None)


def _row(what: str, whole: float, count: int, scan: float) -> Row:
    faster = whole / scan
    return Row(what, milliseconds(whole), f"{whole / count / 1e6:.2f} each", f"{faster:.0f} x cold",
               f">= {_GOAL:g} x cold", faster >= _GOAL)  # fmt: skip


def _nsenter(node: Node, pids: Sequence[int]) -> float:
    """What the script asks at the least: which mount a path is, in each container that has a volume or not."""
    loop = "for pid in " + " ".join(map(str, pids))
    loop += "; do nsenter -t $pid -m findmnt -no SOURCE,FSROOT / >/dev/null || exit 1; done"
    return _took(node.command(["sh", "-c", loop])) / len(pids)


def _inspect(crictl: Crictl) -> _Each:
    ids = crictl.runtime.ids
    inspect = [str(crictl.program), "--config", "/dev/null", "--runtime-endpoint", crictl.runtime.endpoint, "inspect",
               "--output", "go-template", "--template"]  # fmt: skip
    one, all_of_them = [*inspect, _PID], [*inspect, _PIDS, *ids]
    said = build.run(all_of_them).split()
    if len(said) != len(ids) or not all(pid.isdecimal() and pid != "0" for pid in said):
        raise build.BenchError(f"crictl inspect did not tell the pids of {len(ids)} containers: {said[:3]}")
    loop = f"for id in {' '.join(ids)}; do {shlex.join(one)} $id >/dev/null || exit 1; done"
    each = [_took(["sh", "-c", loop]) / len(ids) for _ in range(_ROUNDS)]
    whole = [_took(all_of_them) for _ in range(_ROUNDS)]
    first = min(_took([*one, ids[0]]) for _ in range(_ROUNDS))
    return _Each(min(each), first, max(0.0, min(whole) - first) / (len(ids) - 1))


def _took(command: list[str]) -> float:
    before = time.perf_counter_ns()
    build.run(command, timeout=120)
    return time.perf_counter_ns() - before


def _container_pids(root: Path) -> list[int]:
    """The first processes of containers, by their cgroup."""
    found = []
    for place in (root / "proc").iterdir():
        is_container = place.name.isdecimal() and "/kubepods/" in (place / "cgroup").read_text()
        if is_container and (place / "comm").read_text().strip() != "worker":
            found.append(int(place.name))
    return sorted(found)

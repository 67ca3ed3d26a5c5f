# SPDX-License-Identifier: Apache-2.0
"""The measuring of scans, run inside the node: python -m bench.inside FLOOR REPETITIONS.

Prints one JSON object: nanoseconds by kind, repetition by repetition, on the clock and of the processor, and what was
found, for the caller to check."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple, Optional

from ostreewatchd import settings
from ostreewatchd.judge import judge
from ostreewatchd.model import Finding, History
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.look import look
from ostreewatchd.peers.hostmounts import HostMounts

_DEFAULTS, _ = settings.load(())
_Key = tuple[str, str, str, bool, str]


class _Answer(NamedTuple):
    containers: int
    findings: list[_Key]
    problems: list[str]


def _scan(
    looker: ContainerLooker, mounts: Optional[HostMounts]
) -> tuple[tuple[int, int], int, Sequence[Finding], list[str]]:
    """Nanoseconds on the clock and of the processor, containers, findings, problems."""
    used, before = time.process_time_ns(), time.perf_counter_ns()
    snapshot = look(_DEFAULTS, looker, History(), mounts=mounts)
    findings = judge(snapshot)
    took = (time.perf_counter_ns() - before, time.process_time_ns() - used)
    return took, snapshot.container_count, findings, [f"{one.where}: {one.what}" for one in snapshot.problems]


def main(arguments: list[str]) -> int:
    floor_program, repetitions = arguments[0], int(arguments[1])
    times: dict[str, list[tuple[int, int]]] = {"floor": [], "cold": [], "warm": []}
    found: set[_Key] = set()
    kept = ContainerLooker(remember=True)
    answers: list[_Answer] = []
    with subprocess.Popen([floor_program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as floor:
        if floor.stdin is None or floor.stdout is None:
            return 1
        mounts = HostMounts()
        _scan(kept, mounts)
        # The first round warms the kernel's caches for all three and is not counted.
        for number in range(-1, repetitions):
            floor.stdin.write("scan\n")
            floor.stdin.flush()
            counts = [int(part) for part in floor.stdout.readline().split()]
            # Cold: as a program does that has just started.
            once = ContainerLooker(remember=False)
            cold = _scan(once, None)
            once.close()
            _scan(kept, mounts)
            warm = _scan(kept, mounts)
            for kind, took in (("floor", (counts[0], counts[1])), ("cold", cold[0]), ("warm", warm[0])):
                if number >= 0:
                    times[kind].append(took)
            for _, count, findings, problems in (cold, warm):
                answers.append(_Answer(count, sorted({_key(one) for one in findings}), problems[:5]))
        floor.stdin.close()
    kept.close()
    for answer in answers:
        found.update(answer.findings)
    same = all(answer == answers[0] for answer in answers)
    print(json.dumps({"times": times, "processes": counts[2], "namespaces": counts[3], "candidates": counts[4],
                      "containers": answers[0].containers, "findings": sorted(found), "same": same,
                      "problems": answers[0].problems}))  # fmt: skip
    return 0


def _key(finding: Finding) -> _Key:
    return (finding.subject.container_id, finding.path, finding.inside, finding.owed, finding.verdict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

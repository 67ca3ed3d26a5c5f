# SPDX-License-Identifier: Apache-2.0
"""python -m bench [--quick]: all figures of DESIGN §9 in one table. Exit status: 0 measured (whether or not the
goals are met; --strict makes that 1), 3 could not measure."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple, Optional

from bench import build, scans, script, watching
from bench.build import BenchError
from bench.node import Node
from bench.runtime import Runtime
from bench.table import Row, show


class Effort(NamedTuple):
    sizes: tuple[int, ...]
    rest_of: int
    """The size at which all but the scans is measured."""
    scans: int
    script: int
    latency: int
    idle: float
    storm: int


_FULL = Effort(sizes=(250, 1000, 5000), rest_of=1000, scans=15, script=60, latency=20, idle=60, storm=10)
_QUICK = Effort(sizes=(250,), rest_of=250, scans=5, script=20, latency=5, idle=5, storm=3)


def _crictl(stack: contextlib.ExitStack) -> Optional[script.Crictl]:
    """None where there can be none, which is said: the rest is measured without."""
    _say("crictl and a containerd for it to ask (the first time crictl is built, a minute or more)")
    try:
        return script.Crictl(build.crictl(), stack.enter_context(Runtime()))
    except BenchError as error:
        print(f"bench: no crictl: {error}", file=sys.stderr)
        return None


def _measure(effort: Effort, only: str) -> Iterator[Row]:
    with contextlib.ExitStack() as stack:
        crictl = _crictl(stack) if only in ("", "scan") else None
        yield from _on_nodes(effort, only, crictl)


def _on_nodes(effort: Effort, only: str, crictl: Optional[script.Crictl]) -> Iterator[Row]:
    interpreters = build.interpreters()
    if not interpreters:
        raise BenchError(f"none of Python {', '.join(build.SUPPORTED)} was found")
    build.program("floor", "floor.c")
    chosen = next((one for one in interpreters if one.version == "3.11"), interpreters[0])
    for size in effort.sizes:
        _say(f"making a node of {size} mount namespaces")
        with Node(size) as node:
            if not only or only == "scan":
                _say("scans")
                yield from scans.rows(node, effort.scans if size <= 1000 else 4, effort.script, crictl)
            if size != effort.rest_of:
                continue
            if not only or only == "memory":
                _say("the watcher's memory")
                yield from watching.memory_rows(node, interpreters)
            if not only or only == "latency":
                _say("from mount to finding")
                yield watching.latency_row(node, chosen, effort.latency)
            if not only or only == "rest":
                _say("at rest and in a storm")
                yield from watching.rest_rows(node, chosen, effort.idle, effort.storm)


def _say(what: str) -> None:
    print(f"bench: {what} ...", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="250 namespaces, fewer repetitions, under a minute")
    parser.add_argument("--only", choices=("scan", "memory", "latency", "rest"), default="")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a goal is not met")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    started = time.monotonic()
    rows: list[Row] = []
    try:
        build.check_machine()
        rows.extend(_measure(_QUICK if arguments.quick else _FULL, arguments.only))
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 3
    finally:
        if rows:
            print(show(rows))
    load = os.getloadavg()[0]
    print(f"\n{os.cpu_count()} cores, load {load:.1f}, Linux {os.uname().release}, {time.monotonic() - started:.0f} s")
    return 1 if arguments.strict and any(row.met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

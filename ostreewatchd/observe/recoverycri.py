# SPDX-License-Identifier: Apache-2.0
"""What a runtime answers about itself and its pods, as evidence of recovery."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, Optional

from msgspec.structs import replace

from ostreewatchd.model import ContainerSeen, CriSeen, SandboxSeen
from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.cri.types import RuntimeContainer, Sandbox
from ostreewatchd.peers.errors import PeerError

DEADLINE = 3.0
_MAX_ENDS = 100
"""Ended containers of which the end is asked for."""


class Answer(NamedTuple):
    """What it said, and the ids of all sandboxes and containers that it knows, older attempts too."""

    seen: CriSeen
    ids: frozenset[str]


def ask(sockets: Sequence[str]) -> Answer:
    """The first of the sockets that answers; what none of them did is the problem."""
    problems = []
    for socket in sockets:
        asked = time.monotonic()
        try:
            with Runtime.connect(socket, deadline=DEADLINE) as runtime:
                return _seen(runtime, socket, asked)
        except PeerError as error:
            problems.append(error.what)
    problem = "; ".join(problems)[:500] or "no socket of it is known"
    return Answer(CriSeen(asked=time.monotonic(), problem=problem), frozenset())


def _seen(runtime: Runtime, socket: str, asked: float) -> Answer:
    version, status = runtime.version(), runtime.status()
    sandboxes, containers = runtime.sandboxes(), runtime.containers()
    seen = CriSeen(
        socket=socket,
        asked=asked,
        name=version.runtime[:100],
        version=version.version[:100],
        ready=status.runtime_ready,
        network_ready=status.network_ready,
        why=status.why,
        handlers=status.handlers,
        sandboxes=tuple(
            SandboxSeen(
                id=one.id, namespace=one.namespace, pod=one.name, uid=one.uid, ready=one.ready,
                created_wall=_wall(one.created_ns),
            )
            for one in sandboxes
        ),
        containers=_newest(runtime, sandboxes, containers),
    )  # fmt: skip
    return Answer(seen, frozenset({one.id for one in sandboxes} | {one.id for one in containers}))


def _newest(
    runtime: Runtime, sandboxes: Sequence[Sandbox], containers: Sequence[RuntimeContainer]
) -> tuple[ContainerSeen, ...]:
    """Of each container of a pod the one that was made last; of those that have ended, how."""
    pods = {one.id: one for one in sandboxes}
    newest: dict[tuple[str, str], RuntimeContainer] = {}
    for one in containers:
        pod = pods.get(one.sandbox_id)
        if pod is not None:
            key = (pod.uid, one.name)
            if key not in newest or one.created_ns > newest[key].created_ns:
                newest[key] = one
    found = []
    asked = 0
    for (uid, name), one in newest.items():
        pod = pods[one.sandbox_id]
        seen = ContainerSeen(
            id=one.id, namespace=pod.namespace, pod=pod.name, uid=uid, name=name, attempt=one.attempt,
            state=one.state, created_wall=_wall(one.created_ns),
        )  # fmt: skip
        if one.state == "exited" and asked < _MAX_ENDS:
            asked += 1
            seen = _with_end(runtime, seen)
        found.append(seen)
    return tuple(found)


def _with_end(runtime: Runtime, seen: ContainerSeen) -> ContainerSeen:
    try:
        status = runtime.container_status(seen.id)
    except PeerError:
        return seen  # It was removed since it was listed, as ended ones are: how it ended is not known.
    ended = _wall(status.finished_ns) if status.finished_ns is not None else None
    return replace(seen, ended_wall=ended, exit_code=status.exit_code)


def _wall(nanoseconds: int) -> Optional[float]:
    return nanoseconds / 1e9 if nanoseconds > 0 else None

# SPDX-License-Identifier: Apache-2.0
"""What a restart of the runtime would break off, as far as it can be seen from outside.

The runtime does not list what it is still making: a pod's directory that kubelet has made a short time ago, without a
sandbox yet, tells of it; so does a sandbox in which no container has been started yet, and a container that is only
`created`. Sources: kubernetes pkg/kubelet (it makes a pod's directories before its sandbox); containerd docs/
content-flow.md (`ingest` has what is being pulled); containers/image internal/tmpdir (`container_images_*`)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from ostreewatchd.model import InFlight
from ostreewatchd.observe.host import Host
from ostreewatchd.peers.cri.types import RuntimeContainer, Sandbox
from ostreewatchd.peers.paths import LIST_LIMIT

_YOUNG = 600.0
"""Seconds: what has been in the making for longer is stuck (containerd#10437), and a restart breaks nothing off."""
_DIRECTORY_IS_YOUNG = 120.0
_PULLED_WITHIN = 120.0
"""Seconds since a pull wrote last: what is older was broken off and left behind."""
_INGESTS = (
    "/var/lib/containerd/io.containerd.content.v1.content/ingest",
    "/var/lib/rancher/k3s/agent/containerd/io.containerd.content.v1.content/ingest",
    "/var/lib/rancher/rke2/agent/containerd/io.containerd.content.v1.content/ingest",
    "/var/snap/microk8s/common/var/lib/containerd/io.containerd.content.v1.content/ingest",
    "/var/lib/k0s/containerd/io.containerd.content.v1.content/ingest",
)
_PULLS, _PULL = "/var/tmp", "container_images_"


def in_flight(
    host: Host, pods_directory: str, sandboxes: Sequence[Sandbox], containers: Sequence[RuntimeContainer]
) -> InFlight:
    """By what the runtime lists now and what is on disk."""
    now = time.time()
    creating = {one.id: _name(one) for one in sandboxes}
    seen = {one.sandbox_id for one in containers if one.state != "created"}
    made = {one.sandbox_id for one in containers if one.state == "created" and _is_young(one.created_ns, now)}
    empty = {one.id for one in sandboxes if one.ready and one.id not in seen and _is_young(one.created_ns, now)}
    names = {creating[one] for one in made | empty if one in creating}
    return InFlight(
        creating=tuple(sorted(names | set(_without_sandbox(host, pods_directory, sandboxes, now)))),
        terminating=tuple(sorted(_name(one) for one in sandboxes if not one.ready and _runs(one, containers))),
        pulls=_pulls(host, now),
    )


def _name(one: Sandbox) -> str:
    return f"{one.namespace}/{one.name}"


def _is_young(nanoseconds: int, now: float) -> bool:
    return now - nanoseconds / 1e9 < _YOUNG


def _runs(sandbox: Sandbox, containers: Iterable[RuntimeContainer]) -> bool:
    return any(one.sandbox_id == sandbox.id and one.state == "running" for one in containers)


def _without_sandbox(host: Host, directory: str, sandboxes: Iterable[Sandbox], now: float) -> list[str]:
    known = {one.uid for one in sandboxes}
    found = []
    for uid in _names(host, directory):
        if uid not in known and _written(host, f"{directory}/{uid}", now) < _DIRECTORY_IS_YOUNG:
            found.append(f"pod {uid}")
    return found


def _pulls(host: Host, now: float) -> int:
    found = 0
    for directory in _INGESTS:
        found += sum(
            _written(host, f"{directory}/{name}/data", now) < _PULLED_WITHIN for name in _names(host, directory)
        )
    return found + sum(
        _written(host, f"{_PULLS}/{name}", now) < _PULLED_WITHIN
        for name in _names(host, _PULLS)
        if name.startswith(_PULL)
    )


def _names(host: Host, directory: str) -> list[str]:
    try:
        return host.root.names(directory)[:LIST_LIMIT]
    except OSError:
        return []


def _written(host: Host, path: str, now: float) -> float:
    """How many seconds ago; of what cannot be asked, endless."""
    try:
        seconds, nanoseconds = host.root.what(path).modified
    except OSError:
        return float("inf")
    return now - seconds - nanoseconds / 1e9

# SPDX-License-Identifier: Apache-2.0
"""Makes a Snapshot small enough for a file. What was left out is said in its `problems`, so that nobody takes the rest
for all; what is stale is kept longest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Callable, Optional, TypeVar

import msgspec

from ostreewatchd.judge import judge
from ostreewatchd.model import (
    Bind,
    Container,
    History,
    KubeletView,
    Ostree,
    Problem,
    Reference,
    RuntimeView,
    Sight,
    Snapshot,
)
from ostreewatchd.replay import form
from ostreewatchd.replay.fields import Kind, change_texts

MAX_TEXT = 8192
"""Characters of one text. A path has at the most 4096."""
MAX_BINDS = 1000
"""Of one container."""
MAX_NAMES = 4096
"""Of one directory."""
_ROUNDS = 20
_FEW = 50
"""Entries: a list as short as that is halved last, for it is not what makes a snapshot large."""
_T = TypeVar("_T")


def bounded(snapshot: Snapshot, *, max_bytes: int = form.MAX_BYTES) -> Snapshot:
    """The same if it is small enough, else the most important part of it."""
    snapshot = change_texts(snapshot, _short)
    worst = _worst(snapshot)
    small = _cut(snapshot, worst, 0)
    for halvings in range(1, _ROUNDS):
        if len(form.encode(small)) < max_bytes:
            break
        small = _cut(snapshot, worst, halvings, f", for all would have more than {max_bytes} bytes")
    return small


def _short(text: str, kind: Kind) -> str:
    del kind
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 12]}… (cut off)"


def _worst(snapshot: Snapshot) -> dict[str, int]:
    """How much each container matters, by its id: owed before stale before unknown before fresh."""
    found: dict[str, int] = {}
    for finding in judge(snapshot):
        rank = 0 if finding.owed else 1 if finding.verdict == "stale" else 2
        found[finding.subject.container_id] = min(rank, found.get(finding.subject.container_id, rank))
    return found


class _Fewer:
    """Cuts lists to their limits, or to what is left of their own length and the limit after so many halvings."""

    def __init__(self, halvings: int) -> None:
        self._halvings = halvings
        self.said: list[str] = []
        """What was cut, for people."""

    def of(
        self, entries: Sequence[_T], limit: int, what: str, rank: Callable[[_T], int] = lambda _: 0
    ) -> tuple[_T, ...]:
        """The entries of the lowest rank, in their order."""
        limit = min(limit, len(entries))
        limit = max(limit >> self._halvings, min(limit, _FEW if self._halvings < _ROUNDS // 2 else 0))
        if len(entries) <= limit:
            return tuple(entries)
        self.said.append(f"{limit} of {len(entries)} {what}")
        order = sorted(range(len(entries)), key=lambda index: rank(entries[index]))[:limit]
        return tuple(entries[index] for index in sorted(order))

    def names(self, sight: Sight, where: str) -> Sight:
        """The sight with as many of its names."""
        if not sight.names:
            return sight
        return msgspec.structs.replace(sight, names=self.of(sight.names, MAX_NAMES, f"names in {where}"))


def _cut(snapshot: Snapshot, worst: Mapping[str, int], halvings: int, why: str = "") -> Snapshot:
    """Each list to its limit; the first of the problems says what was left out."""
    fewer = _Fewer(halvings)
    containers = _containers(snapshot, worst, fewer)
    small = msgspec.structs.replace(
        snapshot,
        containers=containers,
        references=_references(snapshot, containers, fewer),
        runtime=_runtime(snapshot.runtime, containers, fewer),
        kubelet=_kubelet(snapshot.kubelet, fewer),
        history=_history(snapshot.history, fewer),
        ostree=_ostree(snapshot.ostree, fewer),
        flags=fewer.of(snapshot.flags, 100, "flags"),
        daemons=fewer.of(snapshot.daemons, 200, "daemons"),
        vm_sandboxes=fewer.of(snapshot.vm_sandboxes, 5000, "pods in virtual machines"),
        cni_directories=fewer.of(snapshot.cni_directories, 200, "CNI directories"),
        problems=fewer.of(snapshot.problems, 500, "problems"),
    )
    if not fewer.said:
        return small
    what = f"it is not whole{why}: it has {'; '.join(fewer.said[:20])}"
    problem = Problem(where="the snapshot", what=f"{what}; and more" if len(fewer.said) > 20 else what)
    return msgspec.structs.replace(small, problems=(problem, *small.problems))


def _containers(snapshot: Snapshot, worst: Mapping[str, int], fewer: _Fewer) -> tuple[Container, ...]:
    kept = fewer.of(snapshot.containers, 5000, "containers that hold a piece of the host's tree",
                    lambda one: worst.get(one.id, 3))  # fmt: skip
    return tuple(msgspec.structs.replace(one, binds=_binds(one, fewer)) for one in kept)


def _binds(container: Container, fewer: _Fewer) -> tuple[Bind, ...]:
    kept = fewer.of(container.binds, MAX_BINDS, f"binds of container {container.id[:12]}")
    return tuple(msgspec.structs.replace(one, sight=fewer.names(one.sight, one.path)) for one in kept)


def _references(snapshot: Snapshot, containers: Sequence[Container], fewer: _Fewer) -> tuple[Reference, ...]:
    """First those of the containers that are kept."""
    paths = {bind.host_path for one in containers for bind in one.binds} | set(snapshot.cni_directories)
    kept = fewer.of(snapshot.references, 20_000, "references", lambda one: one.host_path not in paths)
    return tuple(msgspec.structs.replace(one, sight=fewer.names(one.sight, one.host_path)) for one in kept)


def _runtime(runtime: Optional[RuntimeView], containers: Sequence[Container], fewer: _Fewer) -> Optional[RuntimeView]:
    """First what it says of the containers that are kept."""
    if runtime is None:
        return None
    uids, ids = {one.pod.uid for one in containers}, {one.id for one in containers}
    return msgspec.structs.replace(
        runtime,
        pods=fewer.of(runtime.pods, 10_000, "pods of the runtime's", lambda one: one.uid not in uids),
        containers=fewer.of(runtime.containers, 20_000, "containers of the runtime's", lambda one: one.id not in ids),
    )


def _kubelet(kubelet: Optional[KubeletView], fewer: _Fewer) -> Optional[KubeletView]:
    if kubelet is None:
        return None
    pods = fewer.of(kubelet.pods, 10_000, "pods of kubelet's") if kubelet.pods is not None else None
    return msgspec.structs.replace(kubelet, static_pods=fewer.of(kubelet.static_pods, 1000, "static pods"), pods=pods)


def _history(history: History, fewer: _Fewer) -> History:
    """The newest acts."""
    return msgspec.structs.replace(history, acts=fewer.of(history.acts, 1000, "acts", lambda one: -one.id))


def _ostree(ostree: Ostree, fewer: _Fewer) -> Ostree:
    return msgspec.structs.replace(
        ostree,
        unlocked=fewer.of(ostree.unlocked, 100, "marks of an unlocked deployment"),
        unreadable=fewer.of(ostree.unreadable, 200, "unreadable files"),
        inside=fewer.of(ostree.inside, 500, "mounts inside of deployments"),
    )

# SPDX-License-Identifier: Apache-2.0
"""Makes a Snapshot small enough for a file. What was left out is said in its `problems`, so that nobody takes the rest
for all; what is stale is kept longest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Callable, TypeVar

import msgspec

from ostreewatchd.judge import judge
from ostreewatchd.model import Problem, Sight, Snapshot
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


def _cut(snapshot: Snapshot, worst: Mapping[str, int], halvings: int, why: str = "") -> Snapshot:
    """Each list to its limit, or to what is left of its own length and the limit after so many halvings."""
    said: list[str] = []

    def few(entries: Sequence[_T], limit: int, what: str, rank: Callable[[_T], int] = lambda _: 0) -> tuple[_T, ...]:
        limit = min(limit, len(entries))
        limit = max(limit >> halvings, min(limit, _FEW if halvings < _ROUNDS // 2 else 0))
        if len(entries) <= limit:
            return tuple(entries)
        said.append(f"{limit} of {len(entries)} {what}")
        order = sorted(range(len(entries)), key=lambda index: rank(entries[index]))[:limit]
        return tuple(entries[index] for index in sorted(order))

    def narrow(sight: Sight, where: str) -> Sight:
        names = few(sight.names, MAX_NAMES, f"names in {where}") if sight.names else ()
        return msgspec.structs.replace(sight, names=names)

    containers = []
    for one in few(snapshot.containers, 5000, "containers that hold a piece of the host's tree",
                   lambda one: worst.get(one.id, 3)):  # fmt: skip
        binds = few(one.binds, MAX_BINDS, f"binds of container {one.id[:12]}")
        containers.append(
            msgspec.structs.replace(
                one, binds=tuple(msgspec.structs.replace(b, sight=narrow(b.sight, b.path)) for b in binds)
            )
        )
    paths = {bind.host_path for one in containers for bind in one.binds} | set(snapshot.cni_directories)
    uids, ids = {one.pod.uid for one in containers}, {one.id for one in containers}
    references = tuple(
        msgspec.structs.replace(one, sight=narrow(one.sight, one.host_path))
        for one in few(snapshot.references, 20_000, "references", lambda one: one.host_path not in paths)
    )
    runtime, kubelet, history, ostree = snapshot.runtime, snapshot.kubelet, snapshot.history, snapshot.ostree
    if runtime is not None:
        runtime = msgspec.structs.replace(
            runtime,
            pods=few(runtime.pods, 10_000, "pods of the runtime's", lambda one: one.uid not in uids),
            containers=few(runtime.containers, 20_000, "containers of the runtime's", lambda one: one.id not in ids),
        )
    if kubelet is not None:
        kubelet = msgspec.structs.replace(kubelet, static_pods=few(kubelet.static_pods, 1000, "static pods"))
    acts = few(history.acts, 1000, "acts", lambda one: -one.id)
    ostree = msgspec.structs.replace(
        ostree,
        unlocked=few(ostree.unlocked, 100, "marks of an unlocked deployment"),
        unreadable=few(ostree.unreadable, 200, "unreadable files"),
        inside=few(ostree.inside, 500, "mounts inside of deployments"),
    )
    small = msgspec.structs.replace(
        snapshot,
        containers=tuple(containers),
        references=references,
        runtime=runtime,
        kubelet=kubelet,
        history=msgspec.structs.replace(history, acts=acts),
        ostree=ostree,
        flags=few(snapshot.flags, 100, "flags"),
        daemons=few(snapshot.daemons, 200, "daemons"),
        vm_sandboxes=few(snapshot.vm_sandboxes, 5000, "pods in virtual machines"),
        cni_directories=few(snapshot.cni_directories, 200, "CNI directories"),
        problems=few(snapshot.problems, 500, "problems"),
    )
    if not said:
        return small
    what = f"it is not whole{why}: it has {'; '.join(said[:20])}"
    problem = Problem(where="the snapshot", what=f"{what}; and more" if len(said) > 20 else what)
    return msgspec.structs.replace(small, problems=(problem, *small.problems))

# SPDX-License-Identifier: Apache-2.0
"""A runtime's watch of its CNI directory sits on another directory than the path leads to now, or it has none any
more: what changes there it does not notice. As long as it has loaded what the directory names first, nothing has
come of it. If it has not, new pods get another network than they should, or none, without any error; then its
restart is due. An event in the directory that it does watch makes it read the right one, by its path: a restart of
a container that writes there may be all that is needed, and so comes first.

A file that cannot be read is never a reason.

Source: containerd#6490, #10646, #11208, #7196 and cri-o/ocicni#42 (the watch is of an inode); containerd
internal/cri/server/status.go (Status, verbose: the networks that are loaded); k8snetworkplumbingwg/multus-cni#1361."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.rule import Cure, Rule
from ostreewatchd.model import Change, CniReader, Finding, Snapshot, Subject

rule = Rule("runtime-watch-stale", cure=Cure.RESTART_UNIT)
_WHAT = {
    "elsewhere": "its watch sits on another directory than the path leads to",
    "none": "it watches nothing any more",
}


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each runtime that makes the node's pods."""
    for reader in snapshot.cni_readers:
        if is_stale(snapshot, reader):
            yield _finding(reader, *_outcome(snapshot, reader))


def is_stale(snapshot: Snapshot, reader: CniReader) -> bool:
    """Whether its watch does not tell it what changes where it reads; only of one that makes the node's pods."""
    return reader.watch in _WHAT and _makes_pods(snapshot, reader)


def _makes_pods(snapshot: Snapshot, reader: CniReader) -> bool:
    """One of several may be there for something else: then it is the one that kubelet's socket names."""
    if not any(one.kind == "kubelet" for one in snapshot.daemons):
        return False
    if len(snapshot.cni_readers) == 1:
        return True
    return snapshot.runtime is not None and reader.runtime in snapshot.runtime.socket


def _outcome(snapshot: Snapshot, reader: CniReader) -> tuple[bool, str]:
    """Whether its restart is due, and why or why not."""
    if not reader.network:
        why = reader.problem or f"there is no CNI configuration in {reader.directory}"
        return False, f"what it should have loaded is not known: {why}"
    if snapshot.runtime is None:
        return False, "what it has loaded was not asked"
    loaded = snapshot.runtime.networks
    if loaded is None:
        return False, f"{reader.runtime} does not tell what it has loaded"
    if reader.network in loaded:
        return False, f"it has loaded {reader.network}, which is what the directory names first"
    has = ", ".join(loaded) or "no network"
    return True, f"it has loaded {has}, and the directory names {reader.network} first ({reader.file})"


def _finding(reader: CniReader, owed: bool, because: str) -> Finding:
    unit, who = reader.unit or reader.runtime, f"{reader.runtime} (pid {reader.pid})"
    remedy = (
        f"a write into the directory that it watches, else: systemctl restart {unit}. Until then pods start with"
        " another network than they should, and without any error"
        if owed
        else f"none yet; systemctl restart {unit} before the CNI configuration is changed"
    )
    return Finding(
        rule=rule.name,
        verdict="stale",
        owed=owed,
        subject=Subject(kind="unit", unit=unit),
        path=reader.directory,
        changes=(Change(rule=rule.name, action="restart", because=because),) if owed else (),
        reason=f"{'' if owed else 'noted only: '}{who}: {_WHAT[reader.watch]}; {because}",
        remedy=remedy,
    )

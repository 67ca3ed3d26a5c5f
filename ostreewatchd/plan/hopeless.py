# SPDX-License-Identifier: Apache-2.0
"""What a restart would not bring back: configuration that the new tree lacks, or the host's path itself."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator

from ostreewatchd.model import Container, Daemon, Finding, Reference, Refusal, Snapshot
from ostreewatchd.plan.moment import bind_of


def lost(snapshot: Snapshot, container: Container, finding: Finding) -> str:
    """CNI configuration that the old directory has and the new one lacks, less what its writer makes anew at
    each start. Init containers do not run again, so nobody would bring it back."""
    bind = bind_of(container, finding)
    reference = snapshot.reference(finding.path, container.maker(bind)) if bind is not None else None
    if bind is None or reference is None or finding.path not in snapshot.cni_directories:
        return ""
    lost = [
        name
        for name in sorted(set(bind.sight.names) - set(_names(snapshot, reference)))
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in snapshot.self_written)
    ]
    if not lost:
        return ""
    return f"the host's {finding.path} lacks {', '.join(lost)}: a restart does not write it, and pods would lose it"


def _names(snapshot: Snapshot, reference: Reference) -> tuple[str, ...]:
    init = snapshot.reference(reference.host_path, snapshot.init_mount_namespace)
    return init.sight.names if init is not None else reference.sight.names


def refusals(snapshot: Snapshot, findings: Iterable[Finding]) -> Iterator[Refusal]:
    """What would be owed if a restart could cure it: of these it is not known to be stale or fresh, for what a new
    container would get is not what the host has."""
    for finding in findings:
        container = snapshot.container(finding.subject.container_id)
        if finding.verdict != "unknown" or container is None or snapshot.torn:
            continue
        bind = bind_of(container, finding)
        if bind is None or bind.via or not bind.writable or not snapshot.cni_directory_of(finding.path):
            continue
        reference = snapshot.reference(finding.path, container.maker(bind))
        if reference is not None and reference.sight.absent:
            yield _missing(finding)
        elif stale := snapshot.stale_runtimes(bind.host_path):
            yield _runtime_is_stale(stale, finding)


def of_unit(finding: Finding) -> Refusal:
    """What the restart of a unit cures, and nothing smaller."""
    return Refusal(
        name="runtime-is-stale",
        because=finding.reason,
        ends=f"with a restart of {finding.subject.unit}, which is a person's to order",
        subject=finding.subject,
        alarm=True,
    )


def _missing(finding: Finding) -> Refusal:
    """The runtime makes an absent directory, empty, or fails: a hostPath's type is checked when the pod is made and
    not when its container is started again. Source: kubernetes/kubernetes#128814."""
    return Refusal(
        name="host-path-missing",
        because=f"the host has no {finding.path} now: a restart would make it, empty, or fail",
        ends="when the host has the path again",
        subject=finding.subject,
    )


def _runtime_is_stale(runtimes: Iterable[Daemon], finding: Finding) -> Refusal:
    """No container and no sandbox sees more of the host than the process that makes them."""
    units = sorted({one.unit or f"the unit of {one.name} (pid {one.pid})" for one in runtimes})
    return Refusal(
        name="runtime-is-stale",
        because=f"the container runtime itself does not see the host's {finding.path}: whatever it starts does not",
        ends=f"with a restart of {', '.join(units)}, which is a person's to order",
        subject=finding.subject,
        alarm=True,
    )

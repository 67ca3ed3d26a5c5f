# SPDX-License-Identifier: Apache-2.0
"""What each text in a Snapshot, a Finding and a Plan is: by it, texts are cut, cleared of secrets and renamed.

A test fails where a text of the model is not in the table; until then it counts as a name, which is never kept."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Callable

import msgspec


class Kind(enum.Enum):
    """What a text may hold."""

    KEPT = "one of a few words of the product's own, or of a published interface: nobody's name"
    NAME = "a name, an id or a path: of this node and its pods alone"
    TEXT = "words for people, or a kernel's line, with names in them"


_KEPT = """
Binder.kind Daemon.kind Finding.rule Finding.verdict KubeletView.refusal Live.usr_class Live.usr_overlay Node.platform
PastAct.failure PastAct.outcome PastAct.step Refusal.name Settings.lock Settings.mode Snapshot.product
StaticPod.restart_policy Step.kind Subject.kind Switch.root SystemView.state
Change.action Change.rule ConfigFile.of Decision.action Program.role Runtime.kind
CniReader.runtime CniReader.watch Credential.kind Credential.writer
PastRecovery.late_verdict PastRecovery.verdict
ContainerSeen.state PodSeen.phase Recovered.verdict Recovery.product Recovery.since_from Row.name Row.verdict
UnitSeen.active UnitSeen.result UnitSeen.sub
"""
_NAMES = """
Bind.host_path Bind.path Bind.via Certificate.name Certificate.subject
CniReader.directory CniReader.file CniReader.network CniReader.unit RuntimeView.networks
Container.id Container.name Container.sandbox_id
Credential.container_id Credential.key_id Credential.path Credential.pod Credential.pod_uid Credential.subject
Daemon.held_at Daemon.name Daemon.unit Deployments.booted Deployments.etc Deployments.next_boot Deployments.pending
Deployments.staged Deployments.usr Finding.inside Finding.path Flag.path History.set_aside_boot Inside.deployment
Inside.point Inside.shows KubeletView.pods Node.boot_id Node.name Ostree.live_commit Ostree.live_target Ostree.missing
PastAct.boot_id PastAct.switch_id Pause.boot_id Pause.who Pod.name Pod.namespace Pod.uid Reference.host_path
RuntimeContainer.id RuntimeContainer.name RuntimeContainer.sandbox_id RuntimePod.annotations RuntimePod.labels
RuntimePod.name RuntimePod.namespace RuntimePod.sandbox_id RuntimePod.uid RuntimeView.socket Seen.deployment
Settings.cni_directories Settings.kubelet_authority Settings.kubelet_certificate Settings.kubelet_key
Settings.kubelet_token Sight.deployment Sight.names Snapshot.cni_directories Snapshot.self_written Snapshot.writers
StaticPod.manifest StaticPod.name StaticPod.namespace Step.sandbox_id Subject.container Subject.container_id
Subject.namespace Subject.pod Subject.pod_uid Subject.unit Switch.boot_id Switch.deployment Switch.id Unreadable.path
VmSandbox.sandbox_id VmSandbox.shim
ConfigFile.path ConfigFile.settings Decision.unit Handler.name Handler.path Handler.rest Handler.root InFlight.creating
InFlight.terminating Program.path Runtime.default_handler Runtime.loaded_default Runtime.types_missing Runtime.used
Service.held_at Service.invocation Service.unit
PastAct.invocation PastAct.successor Step.invocation Step.kubelet
ContainerSeen.id ContainerSeen.name ContainerSeen.namespace ContainerSeen.pod ContainerSeen.uid CriSeen.handlers
CriSeen.name CriSeen.socket FailedUnit.unit KubeletSeen.directories KubeletSeen.running PodSeen.name PodSeen.namespace
PodSeen.reason PodSeen.uid PodSeen.waiting Recovery.boot_id Recovery.handlers Recovery.node Sample.boot_id
Sample.config_path Sample.orphans SandboxSeen.id SandboxSeen.namespace SandboxSeen.pod SandboxSeen.uid
UnitSeen.invocation UnitSeen.unit
"""
_TEXTS = """
Finding.evidence Finding.reason Finding.remedy Flag.means History.problem History.set_aside KubeletView.problem
Live.etc_mount Live.fingerprint Live.partial Live.usr_mount Node.kernel Ostree.next_root Ostree.transient_etc
Ostree.unlocked PastAct.because PastAct.proof Pause.problem Pause.why Problem.what Problem.where
Refusal.because Refusal.ends RpmOstreeView.problem RpmOstreeView.title RuntimeView.problem Sight.mount Sight.problem
Snapshot.torn Step.because Step.larger Step.smaller Switch.fingerprint SystemView.problem Unreadable.what
Change.because ConfigFile.problem Decision.along Decision.larger Decision.smaller Runtime.cni_missing Runtime.flags
Runtime.version Runtime.version_on_disk Step.along
CniReader.problem Credential.problem
PastRecovery.late_why PastRecovery.why
ClusterSeen.problem CriSeen.problem CriSeen.version CriSeen.why KubeletSeen.health_problem KubeletSeen.problem
KubeletSeen.unseen Recovered.alarm Recovered.cause Recovered.notes Row.because UnitSeen.problem
"""

KINDS: Mapping[str, Kind] = {
    field: kind
    for kind, fields in ((Kind.KEPT, _KEPT), (Kind.NAME, _NAMES), (Kind.TEXT, _TEXTS))
    for field in fields.split()
}
"""By `Type.field`."""

Change = Callable[[str, Kind], str]


def change_texts(thing: Any, change: Change) -> Any:
    """The record with each of its texts changed, dictionaries' keys too; all else as it was."""
    return _changed(thing, Kind.NAME, change)


def _changed(thing: Any, kind: Kind, change: Change) -> Any:
    if isinstance(thing, str):
        return change(thing, kind)
    if isinstance(thing, msgspec.Struct):
        owner = type(thing).__name__
        values = {}
        for name in thing.__struct_fields__:
            value = getattr(thing, name)
            values[name] = _changed(value, KINDS.get(f"{owner}.{name}", Kind.NAME), change)
        return type(thing)(**values)
    if isinstance(thing, tuple):
        return tuple(_changed(one, kind, change) for one in thing)
    if isinstance(thing, dict):
        return {change(key, kind): _changed(value, kind, change) for key, value in thing.items()}
    return thing

# SPDX-License-Identifier: Apache-2.0
"""What only the remediation and a person's command ask, because it means to talk to a process: systemd, the runtime,
kubelet, rpm-ostree. Each answers within its deadline or is a problem with its reason."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from ostreewatchd.model import Credential, Daemon, History, Live, RuntimeContainer, RuntimePod, RuntimeView, SystemView
from ostreewatchd.observe import kubelet as kubelets
from ostreewatchd.observe.acceptance import with_acceptance
from ostreewatchd.observe.host import Host
from ostreewatchd.observe.inflight import in_flight
from ostreewatchd.observe.look import Answers
from ostreewatchd.observe.runtimes import RuntimeLook, Said
from ostreewatchd.parse import bundle
from ostreewatchd.peers import rpmostree
from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.cri.types import RuntimeContainer as Listed
from ostreewatchd.peers.cri.types import Sandbox
from ostreewatchd.peers.errors import PeerError
from ostreewatchd.peers.systemd import Systemd, SystemdError
from ostreewatchd.platforms import Platform

_DEADLINE = 3.0
_BACK_OFF_LASTS = 900.0
"""Seconds: kubelet's 10 min, and room for a clock step."""
_MAX_ENDS = 50
_CRIO_BUNDLE = "/run/containers/storage/overlay-containers/{id}/userdata/config.json"

# Of other people's labels and annotations only these are kept: the rest may hold anything.
_LABELS = (
    "controller-revision-hash",
    "pod-template-generation",
    "pod-template-hash",
    "statefulset.kubernetes.io/pod-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_SOURCE = "kubernetes.io/config.source"


class DeepLook:
    """Asks the processes. `Deep` of observe.look."""

    def __init__(self) -> None:
        self._runtimes = RuntimeLook()

    def with_acceptance(self, host: Host, credentials: Sequence[Credential]) -> tuple[Credential, ...]:
        return with_acceptance(host, credentials)

    def ask(self, host: Host, platform: Platform, daemons: Sequence[Daemon], live: Live, history: History) -> Answers:
        kubelet = kubelets.find(host, platform, daemons)
        own = (kubelet.runtime_socket,) if kubelet is not None and kubelet.runtime_socket else ()
        pods = f"{kubelet.directory}/pods" if kubelet is not None else platform.pods
        runtime, lists = _runtime(own or platform.runtime_sockets)
        said = _said(lists, host, pods) if lists.answers else Said()
        view = kubelets.view(kubelet, host, platform, runtime)
        return Answers(
            system=_system(),
            runtime=runtime,
            kubelet=view,
            rpm_ostree=rpmostree.ask(),
            node_runtime=self._runtimes.look(host, platform, daemons, live, history, said, runtime.socket),
        )


class _Lists(NamedTuple):
    """What a runtime answered, as it came."""

    answers: bool = False
    version: str = ""
    configuration: str = ""
    sandboxes: Sequence[Sandbox] = ()
    containers: Sequence[Listed] = ()


def _said(lists: _Lists, host: Host, pods: str) -> Said:
    return Said(
        answers=True,
        version=lists.version,
        configuration=lists.configuration,
        used=tuple(sorted({_handler(host, one) for one in lists.sandboxes if one.ready})),
        in_flight=in_flight(host, pods, lists.sandboxes, lists.containers),
    )


def _system() -> SystemView:
    try:
        with Systemd() as systemd:
            return SystemView(state=systemd.state(), soft_reboots=_soft_reboots(systemd))
    except SystemdError as error:
        return SystemView(problem=str(error))


def _soft_reboots(systemd: Systemd) -> Optional[int]:
    try:
        return systemd.soft_reboots()
    except SystemdError:
        return None  # Older than 254, and it has said its state.


def _runtime(sockets: Sequence[str]) -> tuple[RuntimeView, _Lists]:
    """The first of the sockets that answers; kubelet's own is the only one, where it names one."""
    problems: dict[str, str] = {}
    for socket in sockets:
        try:
            with Runtime.connect(socket, deadline=_DEADLINE) as runtime:
                sandboxes, containers = runtime.sandboxes(), runtime.containers()
                ends = _ends(runtime, sandboxes, containers)
                networks = _networks(runtime)
                version, configuration = runtime.version().version, _configuration(runtime)
        except PeerError as error:
            problems[socket] = str(error)
            continue
        view = RuntimeView(
            socket=socket,
            pods=tuple(
                RuntimePod(
                    sandbox_id=one.id,
                    namespace=one.namespace,
                    name=one.name,
                    uid=one.uid,
                    ready=one.ready,
                    labels={key: one.labels[key] for key in _LABELS if key in one.labels},
                    annotations={key: one.annotations[key] for key in (_SOURCE,) if key in one.annotations},
                )
                for one in sandboxes
            ),
            containers=tuple(
                RuntimeContainer(
                    id=one.id,
                    sandbox_id=one.sandbox_id,
                    name=one.name,
                    attempt=one.attempt,
                    running=one.state == "running",
                    created_at=one.created_ns / 1e9 if one.created_ns > 0 else None,
                    finished_at=ends.get(one.id),
                )
                for one in containers
            ),
            networks=networks,
        )
        return view, _Lists(True, version, configuration, sandboxes, containers)
    return RuntimeView(socket="", problem="; ".join(_of_what_is_here(problems))), _Lists()


def _configuration(runtime: Runtime) -> str:
    try:
        return runtime.configuration()
    except PeerError:
        return ""  # It has answered what it lists.


def _handler(host: Host, sandbox: Sandbox) -> str:
    """CRI-O lists some pods without their handler, and writes it into each sandbox's bundle."""
    if sandbox.handler:
        return sandbox.handler
    try:
        data = host.root.read(_CRIO_BUNDLE.format(id=sandbox.id), bundle.MAX_BYTES)
        return bundle.handler(data)
    except (OSError, bundle.BundleError):
        return ""


def _networks(runtime: Runtime) -> Optional[tuple[str, ...]]:
    try:
        return runtime.cni_networks()
    except PeerError:
        return None  # It has answered what it lists.


def _of_what_is_here(problems: Mapping[str, str]) -> list[str]:
    """Of each socket its problem; where some are in directories that are there, of those alone: the others are of
    runtimes that the node does not have."""
    here = [text for socket, text in problems.items() if os.path.isdir(os.path.dirname(socket))]
    return here or list(problems.values())


def _ends(runtime: Runtime, sandboxes: Sequence[Sandbox], containers: Sequence[Listed]) -> dict[str, float]:
    """When the predecessors of containers that were restarted a short time ago ended: kubelet's back-off depends on
    it, and only then. Of a predecessor that cannot be asked for nothing is known."""
    pods = {one.id: one.uid for one in sandboxes}
    young = time.time() - _BACK_OFF_LASTS
    found: dict[str, float] = {}
    for one in containers:
        if one.state != "running" or one.attempt < 2 or one.created_ns / 1e9 < young:
            continue
        older = [
            other
            for other in containers
            if other.state == "exited"
            and other.name == one.name
            and pods.get(other.sandbox_id) == pods.get(one.sandbox_id)
            and other.attempt < one.attempt
        ]
        if not older or len(found) >= _MAX_ENDS:
            continue
        try:
            status = runtime.container_status(max(older, key=lambda other: other.attempt).id)
        except PeerError:
            continue
        if status.finished_ns is not None:
            found[status.id] = status.finished_ns / 1e9
    return found

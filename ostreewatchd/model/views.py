# SPDX-License-Identifier: Apache-2.0
"""What runtime, kubelet and systemd say of themselves."""

from __future__ import annotations

from typing import Literal, Optional

from ostreewatchd.model.record import Record

KubeletRefusal = Literal[
    "", "kubelet-inactive", "kubelet-not-answering", "kubelet-unhealthy", "api-server-out-of-reach"
]


class RuntimePod(Record, frozen=True, kw_only=True):
    """A sandbox as the runtime lists it."""

    sandbox_id: str
    namespace: str
    name: str
    uid: str
    ready: bool
    labels: dict[str, str]
    annotations: dict[str, str]


class RuntimeContainer(Record, frozen=True, kw_only=True):
    id: str
    sandbox_id: str
    name: str
    attempt: int
    running: bool
    created_at: Optional[float] = None
    finished_at: Optional[float] = None
    """Asked for only where kubelet's back-off depends on it."""


class RuntimeView(Record, frozen=True, kw_only=True):
    """What the container runtime says of itself. `problem` is set where it did not answer."""

    socket: str
    problem: str = ""
    pods: tuple[RuntimePod, ...] = ()
    containers: tuple[RuntimeContainer, ...] = ()
    networks: Optional[tuple[str, ...]] = None
    """The CNI networks that it has loaded. None: it does not tell (CRI-O), or was not asked."""

    def has_pod(self, uid: str) -> bool:
        """Whether a sandbox of the pod is listed, also one that has ended."""
        return any(pod.uid == uid for pod in self.pods)

    def has_ready_pod(self, uid: str) -> bool:
        """Whether a sandbox of the pod is up: of a pod that is gone, an ended one may still be listed."""
        return any(pod.uid == uid and pod.ready for pod in self.pods)


class StaticPod(Record, frozen=True, kw_only=True):
    """A pod that kubelet reads from a manifest file."""

    namespace: str
    name: str
    restart_policy: str
    manifest: str


class KubeletView(Record, frozen=True, kw_only=True):
    """Whether kubelet would start a stopped container again now."""

    pid: Optional[int] = None
    problem: str = ""
    """Why it would not, or why that is not known; empty: it would."""
    refusal: KubeletRefusal = ""
    """The name of the refusal that `problem` is."""
    static_pods: tuple[StaticPod, ...] = ()
    pods: Optional[tuple[str, ...]] = None
    """UIDs of the pods that it keeps a directory for: it removes that when it has forgotten the pod, and its volumes
    are unmounted (kubernetes pkg/kubelet, cleanupOrphanedPodDirs). None: that is not known."""


class SystemView(Record, frozen=True, kw_only=True):
    """What systemd says of the whole system. `problem` is set where it did not answer."""

    state: str = ""
    """Manager.SystemState: running, degraded, stopping, …"""
    soft_reboots: Optional[int] = None
    """Manager.SoftRebootsCount; None where systemd has no such property."""
    problem: str = ""


class RpmOstreeView(Record, frozen=True, kw_only=True):
    """What the message bus and rpm-ostree's daemon say. The daemon exits when it is idle and is started when it is
    called: that nobody owns its name is as usual, and means that nothing is under way."""

    problem: str = ""
    """Why it is not known, or not all of it; empty: it is."""
    installed: Optional[bool] = None
    """Whether there is such a daemon on this host; None: not known."""
    owned: Optional[bool] = None
    """Whether it runs: its name has an owner. None: not known."""
    transaction: Optional[bool] = None
    """Whether it is at work. None: not known."""
    title: str = ""
    """Of what is under way: the method that was called and the stateroot. (A transaction's own title is told only
    over its socket, which nobody but its client may touch.)"""

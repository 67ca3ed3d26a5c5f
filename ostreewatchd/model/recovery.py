# SPDX-License-Identifier: Apache-2.0
"""Evidence on whether a node has recovered from a restart of its container runtime, and what is judged from it.

Times are seconds of CLOCK_MONOTONIC, as systemd's are; what others stamp with the wall clock (`*_wall`) is seconds
since the epoch. What could not be asked has a `problem`; what nobody may ask, for want of a credential, an
`unseen`."""

from __future__ import annotations

from typing import Literal, Optional

from ostreewatchd.model.record import Record

RECOVERY_FORMAT = 1

RowVerdict = Literal["good", "bad", "absent", "old", "unseen"]
"""`absent`: the evidence should be there and is not; `old`: it is good and from before the restart; `unseen`: there is
no way to see it from here (no credential, no such thing on this node), which hinders nothing and is named."""
RecoveryVerdict = Literal["recovered", "not-yet", "cannot-know"]
SinceFrom = Literal["asked", "ledger", "runtime"]


class UnitSeen(Record, frozen=True, kw_only=True):
    """A service as systemd has it. `unit` empty: none of those that it might be is there."""

    unit: str = ""
    active: str = ""
    sub: str = ""
    result: str = ""
    invocation: str = ""
    main_pid: int = 0
    restarts: int = 0
    began: float = 0.0
    """When its newest start was tried; 0: never in this boot."""
    active_since: float = 0.0
    problem: str = ""


class SandboxSeen(Record, frozen=True, kw_only=True):
    """A pod's sandbox, as the runtime lists it."""

    id: str
    namespace: str
    pod: str
    uid: str
    ready: bool
    created_wall: Optional[float] = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}"


class ContainerSeen(Record, frozen=True, kw_only=True):
    """The newest attempt of a container in a pod's newest sandbox, as the runtime lists it."""

    id: str
    namespace: str
    pod: str
    uid: str
    name: str
    attempt: int
    state: Literal["created", "running", "exited", "unknown"]
    created_wall: Optional[float] = None
    ended_wall: Optional[float] = None
    exit_code: Optional[int] = None

    def __str__(self) -> str:
        return f"{self.namespace}/{self.pod}/{self.name}"


class CriSeen(Record, frozen=True, kw_only=True):
    """What the runtime answered on its socket, of calls made from `asked` on."""

    socket: str = ""
    asked: float = 0.0
    name: str = ""
    version: str = ""
    ready: Optional[bool] = None
    network_ready: Optional[bool] = None
    why: str = ""
    handlers: tuple[str, ...] = ()
    """Those that it shows; empty: it shows none (containerd below 2.0)."""
    sandboxes: tuple[SandboxSeen, ...] = ()
    containers: tuple[ContainerSeen, ...] = ()
    problem: str = ""


class PodSeen(Record, frozen=True, kw_only=True):
    """A pod as kubelet has it."""

    namespace: str
    name: str
    uid: str
    phase: str = ""
    ready: Optional[bool] = None
    """Its condition Ready; None: it has none."""
    ready_changed_wall: Optional[float] = None
    reason: str = ""
    waiting: tuple[str, ...] = ()
    """Reasons of containers that wait: CrashLoopBackOff, ImagePullBackOff, …"""
    restarts: int = 0
    critical: bool = False
    """Of the priority class system-node-critical: CNI, kube-proxy, CSI and device plugins are."""
    going: bool = False
    """It is being deleted."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def ended(self) -> bool:
        """Whether it is to run no more."""
        return self.phase in ("Succeeded", "Failed")


class KubeletSeen(Record, frozen=True, kw_only=True):
    """What kubelet answered, of questions put from `asked` on."""

    asked: float = 0.0
    healthy: Optional[bool] = None
    """Its 10248 healthz says ok; None: that is turned off."""
    health_problem: str = ""
    directories: Optional[tuple[str, ...]] = None
    """UIDs of the pods that it keeps a directory for; None: not known."""
    api_healthy: Optional[bool] = None
    """10250 /healthz."""
    pods: Optional[tuple[PodSeen, ...]] = None
    """10250 /pods: those that it is to run."""
    running: Optional[tuple[str, ...]] = None
    """10250 /runningpods/: UIDs of those that the runtime has, as kubelet sees it at that moment."""
    pleg_wall: Optional[float] = None
    """Metric kubelet_pleg_last_seen_seconds: when it last looked through the runtime's containers."""
    unseen: str = ""
    """Why 10250 does not tell: no credential, or none that may."""
    problem: str = ""
    """Why 10250 was asked and did not tell."""


class ClusterSeen(Record, frozen=True, kw_only=True):
    """What the API server has of this node."""

    asked: float = 0.0
    ready: Optional[bool] = None
    heartbeat_wall: Optional[float] = None
    lease_wall: Optional[float] = None
    problem: str = ""


class FailedUnit(Record, frozen=True, kw_only=True):
    unit: str
    at: float


class Sample(Record, frozen=True, kw_only=True):
    """All evidence at one moment."""

    at: float
    wall: float
    boot_id: str
    runtime: UnitSeen
    kubelet: UnitSeen
    cri: CriSeen
    api: KubeletSeen
    cluster: Optional[ClusterSeen] = None
    """None: nobody asks the API server."""
    config_path: str = ""
    """The runtime's configuration file or directory that was changed last."""
    config_wall: Optional[float] = None
    """When."""
    orphans: Optional[tuple[str, ...]] = None
    """Containers that run and that the runtime does not list: their ids. None: not known."""
    failed_monitors: Optional[tuple[FailedUnit, ...]] = None
    """Failed scopes of conmon; None: not known."""

    def moment(self, wall: float) -> float:
        """A time of the wall clock in that of CLOCK_MONOTONIC, as the wall clock is set now."""
        return self.at + (wall - self.wall)


class Recovery(Record, frozen=True, kw_only=True):
    """A series of samples, and from when on evidence counts. Judging needs nothing else."""

    format: int = RECOVERY_FORMAT
    product: str = ""
    node: str = ""
    boot_id: str
    """The boot of `since`."""
    since: float
    """The restart."""
    since_from: SinceFrom = "runtime"
    handlers: tuple[str, ...] = ()
    """Those that must be served."""
    before: Optional[Sample] = None
    """As it was before the restart."""
    samples: tuple[Sample, ...] = ()
    """Oldest first."""


class Row(Record, frozen=True, kw_only=True):
    """One signal of recovery."""

    name: str
    verdict: RowVerdict
    because: str


class Recovered(Record, frozen=True, kw_only=True):
    """What is judged. `rows` are the newest sample's."""

    verdict: RecoveryVerdict
    rows: tuple[Row, ...]
    steady: float
    """Seconds for which all rows have been good, without a break."""
    alarm: str = ""
    """What must be told loudly: the runtime says READY and has lost its pods, or is removing them."""
    notes: tuple[str, ...] = ()
    """Worth knowing, and no hindrance."""
    cause: str = ""
    """Why not, in a line; empty: recovered."""

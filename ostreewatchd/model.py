# SPDX-License-Identifier: Apache-2.0
"""The frozen types on the arrows between the stages: Snapshot, Finding, Plan, and what they hold.

Nothing here reads the world. Times are seconds since the epoch (`*_at`) or seconds of CLOCK_BOOTTIME
(`*_boottime`); `dev` is a `st_dev` as stat(2) gives it."""

from __future__ import annotations

from typing import Literal, Optional

import msgspec

SNAPSHOT_FORMAT = 1


def short_name(deployment: str) -> str:
    """`debian-3f2a01bc9d.0` for a deployment's full name, as people read it; "-" for none."""
    head, _, rest = deployment.rpartition("-")
    checksum, _, serial = rest.partition(".")
    return (f"{head}-{checksum[:10]}.{serial}" if len(checksum) > 20 else deployment) or "-"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What all types here are: immutable, compared by value, written to JSON by msgspec."""


Mode = Literal["heal", "observe"]
Verdict = Literal["fresh", "stale", "unknown"]
OutcomeName = Literal["", "cured", "not-cured", "not-needed", "pod-gone", "superseded", "abandoned"]
"""How an act ended. Empty: it has not, or nothing was done. `superseded`: another switch came before its end;
`abandoned`: the same, found out later."""


class Settings(Record, frozen=True, kw_only=True):
    """All settings with their defaults. A key in the configuration file is a field here."""

    mode: Mode = "heal"
    settle: float = 0.3
    """Seconds without a relevant mount after which the host counts as quiet."""
    settle_cap: float = 600.0
    """Seconds after which waiting for quiet becomes a report."""
    resync: float = 300.0
    """Seconds between looks that nothing asked for."""
    proof: float = 90.0
    """Seconds that kubelet has to start a stopped container again."""
    cni_directories: tuple[str, ...] = ()
    """CNI configuration directories besides the platform's own."""


class Identity(Record, frozen=True, kw_only=True):
    """What a path *is*: compare both numbers, always (an overlay keeps the inode and changes the device)."""

    dev: int
    ino: int

    def __str__(self) -> str:
        return f"{self.dev}:{self.ino}"


class Sight(Record, frozen=True, kw_only=True):
    """What one path is in one mount namespace. No identity: `problem` says why."""

    identity: Optional[Identity] = None
    deployment: str = ""
    """`<stateroot>-<checksum>.<serial>` as the mount's root tells it; empty where it tells none."""
    mount: str = ""
    """The mountinfo line of the mount that the path is on: evidence for people, never the verdict."""
    serial: Optional[int] = None
    """The mount's unique id (statx STATX_MNT_ID_UNIQUE, Linux 6.8): never reused and growing, so it orders
    mounts of one boot. None where the kernel has none."""
    born_at: Optional[float] = None
    """Birth of the file (statx btime), where the filesystem keeps it."""
    is_directory: bool = True
    absent: bool = False
    """There is no such path (and not: it could not be looked at)."""
    names: tuple[str, ...] = ()
    """What the directory lists, for a CNI configuration directory; sorted and bounded."""
    problem: str = ""


class Bind(Record, frozen=True, kw_only=True):
    """A piece of the host's tree in a container."""

    host_path: str
    path: str
    """Where it is in the container."""
    via: str = ""
    """The host path of the mount that really is in the container, if it is an ancestor of `host_path`."""
    writable: bool
    propagated: bool
    """Receives the host's later mounts (HostToContainer, Bidirectional)."""
    sight: Sight


class Pod(Record, frozen=True, kw_only=True):
    namespace: str
    name: str
    uid: str


class Binder(Record, frozen=True, kw_only=True):
    """The process that makes a container's binds: shim or conmon."""

    pid: int
    mount_namespace: int


class Container(Record, frozen=True, kw_only=True):
    """A running container of a pod, known from the kernel and from files, without asking the runtime."""

    id: str
    name: str
    pod: Pod
    attempt: Optional[int] = None
    sandbox_id: str = ""
    pid: int
    started_boottime: float
    started_at: float
    mount_namespace: int
    binder: Binder
    binds: tuple[Bind, ...] = ()


class Reference(Record, frozen=True, kw_only=True):
    """What a container would get at `host_path` if the process in `mount_namespace` made the bind now."""

    host_path: str
    mount_namespace: int
    sight: Sight


class Deployments(Record, frozen=True, kw_only=True):
    """Which deployment is which; empty where there is none or it cannot be told."""

    booted: str = ""
    etc: str = ""
    usr: str = ""
    pending: str = ""
    """The one that the next boot takes, where that is neither booted nor live."""


class Live(Record, frozen=True, kw_only=True):
    """What `/usr` and `/etc` mean now. `usr_class`: self, other-deployment, ostree-overlay, sysext, deleted,
    foreign."""

    deployments: Deployments
    usr_class: str
    usr_mount: str = ""
    etc_mount: str = ""
    fingerprint: str = ""
    """Equal as long as nothing was switched: the boot, the visible mounts of /usr and /etc, and the identity
    of each watched directory. It is how the ledger knows a switch again."""
    partial: str = ""
    """What contradicts itself: `/usr` of one deployment and `/etc` of another."""


class Flag(Record, frozen=True, kw_only=True):
    """A file by which the platform says that something is under way."""

    path: str
    means: str
    always: bool
    """Blocks as long as it is there. Otherwise only until the cap, and only while mounts are incomplete."""
    age: float


class Subject(Record, frozen=True, kw_only=True):
    """What may have to be restarted."""

    kind: str = "container"
    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    container: str = ""
    container_id: str = ""
    unit: str = ""

    def __str__(self) -> str:
        if self.kind == "unit":
            return self.unit
        return f"{self.namespace}/{self.pod}/{self.container}"

    @property
    def key(self) -> tuple[str, str]:
        """What a restart is counted by: a restarted container has another id and is the same subject."""
        return (self.pod_uid, self.container)


class Switch(Record, frozen=True, kw_only=True):
    """A live switch as the ledger knows it."""

    id: str
    fingerprint: str
    boot_id: str
    deployment: str
    seen_at: float
    seen_boottime: float = 0.0
    """When a remediation first saw it: the switch itself was earlier."""


class PastAct(Record, frozen=True, kw_only=True):
    """An act in the ledger. `outcome` is empty between intent and outcome."""

    id: int
    switch_id: str
    step: str
    subject: Subject
    because: str
    intent_at: float
    outcome: OutcomeName = ""
    outcome_at: Optional[float] = None
    proof: str = ""


class History(Record, frozen=True, kw_only=True):
    """The ledger as it was at the look. Not readable: `problem` says why, and nothing is known."""

    problem: str = ""
    set_aside: str = ""
    """Where the last corrupt ledger was put; empty if there never was one."""
    set_aside_boot: str = ""
    """In which boot that was."""
    switch: Optional[Switch] = None
    """The newest switch; a boot's first state counts as one."""
    before: Optional[Switch] = None
    """The one before it."""
    acts: tuple[PastAct, ...] = ()
    """Newest last, bounded."""


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


class RuntimeView(Record, frozen=True, kw_only=True):
    """What the container runtime says of itself. `problem` is set where it did not answer."""

    socket: str
    problem: str = ""
    pods: tuple[RuntimePod, ...] = ()
    containers: tuple[RuntimeContainer, ...] = ()

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
    refusal: str = ""
    """The name of the refusal that `problem` is."""
    static_pods: tuple[StaticPod, ...] = ()


class SystemView(Record, frozen=True, kw_only=True):
    """What systemd says of the whole system. `problem` is set where it did not answer."""

    state: str = ""
    """Manager.SystemState: running, degraded, stopping, …"""
    problem: str = ""


class Problem(Record, frozen=True, kw_only=True):
    """Something that could not be read: where, and why. The rest of the Snapshot holds."""

    where: str
    what: str
    hides: bool = True
    """Something that may be stale could be behind it."""


class Node(Record, frozen=True, kw_only=True):
    name: str
    boot_id: str
    kernel: str
    platform: str


class Snapshot(Record, frozen=True, kw_only=True):
    """The world at one moment. Judge and plan need nothing else."""

    format: int = SNAPSHOT_FORMAT
    product: str
    taken_at: float
    taken_boottime: float
    node: Node
    live: Live
    init_mount_namespace: int
    """PID 1's."""
    cni_directories: tuple[str, ...]
    writers: tuple[str, ...]
    """Container names of the platform's token writers, in the order in which they are restarted."""
    self_written: tuple[str, ...]
    """Names in a CNI directory which their writer makes anew at each start; shell patterns."""
    container_count: int
    """All running containers; `containers` has those that hold a piece of the host's tree."""
    containers: tuple[Container, ...]
    references: tuple[Reference, ...]
    flags: tuple[Flag, ...]
    history: History
    system: Optional[SystemView] = None
    runtime: Optional[RuntimeView] = None
    """None: not asked (the watcher never asks)."""
    kubelet: Optional[KubeletView] = None
    problems: tuple[Problem, ...] = ()

    def reference(self, host_path: str, mount_namespace: int) -> Optional[Reference]:
        """What a bind of `host_path` by a process in `mount_namespace` would show now."""
        for reference in self.references:
            if reference.host_path == host_path and reference.mount_namespace == mount_namespace:
                return reference
        return None

    def cni_directory_of(self, path: str) -> str:
        """The CNI configuration directory that the host path is or lies below; empty if none."""
        for directory in self.cni_directories:
            if path == directory or path.startswith(directory + "/"):
                return directory
        return ""

    def container(self, container_id: str) -> Optional[Container]:
        for container in self.containers:
            if container.id == container_id:
                return container
        return None


class Seen(Record, frozen=True, kw_only=True):
    """An identity with the deployment that it belongs to, as findings show it."""

    dev: int
    ino: int
    deployment: str


class Finding(Record, frozen=True, kw_only=True):
    """One judged fact about a subject."""

    rule: str
    verdict: Verdict
    owed: bool
    subject: Subject
    path: str
    inside: str = ""
    """Where the subject has it."""
    expected: Optional[Seen] = None
    actual: Optional[Seen] = None
    reason: str
    remedy: str
    evidence: tuple[str, ...] = ()


class Step(Record, frozen=True, kw_only=True):
    """One act."""

    kind: Literal["stop-container"]
    subject: Subject
    sandbox_id: str
    attempt: Optional[int]
    grace: int
    """Seconds between SIGTERM and SIGKILL."""
    because: str
    smaller: str
    larger: str


class Refusal(Record, frozen=True, kw_only=True):
    """Why something owed is not done now. `subject` None: it holds for the whole node."""

    name: str
    because: str
    ends: str
    subject: Optional[Subject] = None
    alarm: bool = False
    """Does not end by itself: a person has to look."""


class Plan(Record, frozen=True, kw_only=True):
    """Ordered steps and refusals. Nothing owed: both are empty."""

    steps: tuple[Step, ...] = ()
    refusals: tuple[Refusal, ...] = ()

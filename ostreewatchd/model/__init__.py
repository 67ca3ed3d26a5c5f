# SPDX-License-Identifier: Apache-2.0
"""The frozen types on the arrows between the stages: Snapshot, Finding, Plan, and what they hold.

Nothing here reads the world. Times are seconds since the epoch (`*_at`) or seconds of CLOCK_BOOTTIME
(`*_boottime`); `dev` is a `st_dev` as stat(2) gives it."""

from __future__ import annotations

from ostreewatchd.model.cni import (
    CniReader,
)
from ostreewatchd.model.credential import (
    ClockStep,
    Credential,
)
from ostreewatchd.model.day import (
    day_of,
    moment_of,
)
from ostreewatchd.model.exits import (
    Exit,
    all_exits,
)
from ostreewatchd.model.history import (
    STOPPED_NOTHING,
    History,
    OutcomeName,
    PastAct,
    Pause,
    Subject,
    Switch,
)
from ostreewatchd.model.host import (
    Deployments,
    Flag,
    Inside,
    Live,
    Ostree,
    Unreadable,
    short_name,
)
from ostreewatchd.model.record import (
    Record,
)
from ostreewatchd.model.recovery import (
    RECOVERY_FORMAT,
    ClusterSeen,
    ContainerSeen,
    CriSeen,
    FailedUnit,
    KubeletSeen,
    PodSeen,
    Recovered,
    Recovery,
    RecoveryVerdict,
    Row,
    RowVerdict,
    Sample,
    SandboxSeen,
    SinceFrom,
    UnitSeen,
)
from ostreewatchd.model.runtimes import (
    Change,
    ConfigFile,
    Decision,
    Handler,
    InFlight,
    Program,
    Runtime,
    RuntimeAction,
    RuntimeKind,
    Service,
)
from ostreewatchd.model.settings import (
    Mode,
    Settings,
    Window,
)
from ostreewatchd.model.sight import (
    Bind,
    Binder,
    BinderKind,
    Certificate,
    Container,
    Daemon,
    Identity,
    Pod,
    Reference,
    Sight,
    VmSandbox,
    is_of_one_container,
)
from ostreewatchd.model.snapshot import (
    SNAPSHOT_FORMAT,
    Node,
    Problem,
    Snapshot,
)
from ostreewatchd.model.verdicts import (
    Finding,
    Plan,
    Refusal,
    Seen,
    Step,
    Verdict,
)
from ostreewatchd.model.views import (
    KubeletView,
    RpmOstreeView,
    RuntimeContainer,
    RuntimePod,
    RuntimeView,
    StaticPod,
    SystemView,
)

__all__ = [
    "Bind",
    "Binder",
    "BinderKind",
    "Certificate",
    "Change",
    "ConfigFile",
    "ClockStep",
    "CniReader",
    "Container",
    "Credential",
    "Daemon",
    "Decision",
    "Deployments",
    "Exit",
    "Finding",
    "Flag",
    "Handler",
    "History",
    "Identity",
    "InFlight",
    "Inside",
    "KubeletView",
    "Live",
    "Mode",
    "Node",
    "Ostree",
    "OutcomeName",
    "PastAct",
    "Pause",
    "Plan",
    "Pod",
    "Problem",
    "Program",
    "Record",
    "Reference",
    "Refusal",
    "RpmOstreeView",
    "Runtime",
    "RuntimeAction",
    "RuntimeContainer",
    "RuntimeKind",
    "RuntimePod",
    "RuntimeView",
    "SNAPSHOT_FORMAT",
    "STOPPED_NOTHING",
    "Seen",
    "Service",
    "Settings",
    "Sight",
    "Snapshot",
    "StaticPod",
    "Step",
    "Subject",
    "Switch",
    "SystemView",
    "Unreadable",
    "Verdict",
    "VmSandbox",
    "Window",
    "all_exits",
    "day_of",
    "is_of_one_container",
    "moment_of",
    "short_name",
    "RECOVERY_FORMAT",
    "ClusterSeen",
    "ContainerSeen",
    "CriSeen",
    "FailedUnit",
    "KubeletSeen",
    "PodSeen",
    "Recovered",
    "Recovery",
    "RecoveryVerdict",
    "Row",
    "RowVerdict",
    "Sample",
    "SandboxSeen",
    "SinceFrom",
    "UnitSeen",
]

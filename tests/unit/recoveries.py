# SPDX-License-Identifier: Apache-2.0
"""Evidence of a node with thirty pods that has recovered, to be spoilt by tests."""

from __future__ import annotations

from typing import Any, Optional

from msgspec.structs import replace

from ostreewatchd.model import (
    ClusterSeen,
    ContainerSeen,
    CriSeen,
    KubeletSeen,
    PodSeen,
    Recovery,
    Sample,
    SandboxSeen,
    UnitSeen,
)

BOOT = "11111111-2222-3333-4444-555555555555"
WALL = 1_800_000_000.0
"""The wall clock at the monotonic clock's zero."""
RESTART = 1000.0
KUBELET = 1001.0
PODS = 30


def unit(name: str, began: float, **changes: Any) -> UnitSeen:
    base = UnitSeen(
        unit=name, active="active", sub="running", result="success", invocation=f"{name}-{began:g}", main_pid=7,
        began=began, active_since=began + 0.5,
    )  # fmt: skip
    return replace(base, **changes)


def uid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


def sandbox(number: int, **changes: Any) -> SandboxSeen:
    base = SandboxSeen(id=f"{number:064x}", namespace="default", pod=f"pod-{number}", uid=uid(number), ready=True)
    return replace(base, **changes)


def container(number: int, **changes: Any) -> ContainerSeen:
    base = ContainerSeen(
        id=f"{1000 + number:064x}", namespace="default", pod=f"pod-{number}", uid=uid(number), name="app", attempt=0,
        state="running", created_wall=WALL + 100,
    )  # fmt: skip
    return replace(base, **changes)


def pod(number: int, **changes: Any) -> PodSeen:
    base = PodSeen(
        namespace="default", name=f"pod-{number}", uid=uid(number), phase="Running", ready=True,
        ready_changed_wall=WALL + 100, critical=number < 3,
    )  # fmt: skip
    return replace(base, **changes)


def sample(at: float, *, pods: int = PODS) -> Sample:
    """All that can be seen, a moment before `at`, and good."""
    numbers = range(pods)
    return Sample(
        at=at,
        wall=WALL + at,
        boot_id=BOOT,
        runtime=unit("crio.service", RESTART),
        kubelet=unit("kubelet.service", KUBELET),
        cri=CriSeen(
            socket="/run/crio/crio.sock", asked=at, name="cri-o", version="1.33.1", ready=True, network_ready=True,
            handlers=("", "runc", "kata"), sandboxes=tuple(map(sandbox, numbers)),
            containers=tuple(map(container, numbers)),
        ),
        api=KubeletSeen(
            asked=at, healthy=True, directories=tuple(map(uid, numbers)), api_healthy=True,
            pods=tuple(map(pod, numbers)), running=tuple(map(uid, numbers)), pleg_wall=WALL + at - 1,
        ),
        cluster=ClusterSeen(asked=at, ready=True, heartbeat_wall=WALL + KUBELET + 2, lease_wall=WALL + at - 3),
        config_path="/etc/crio/crio.conf.d", config_wall=WALL + 500, orphans=(), failed_monitors=(),
    )  # fmt: skip


def earlier() -> Sample:
    """Before the restart: other processes, and the same pods."""
    one = sample(RESTART - 5)
    return replace(
        one, runtime=unit("crio.service", 10.0), kubelet=unit("kubelet.service", 11.0),
        cluster=ClusterSeen(asked=one.at, ready=True, heartbeat_wall=one.wall - 100, lease_wall=one.wall - 3),
    )  # fmt: skip


def series(*samples: Sample, before: Optional[Sample] = None, start: float = RESTART + 20, **changes: Any) -> Recovery:
    """These, or seven good ones, each 2 s after the one before."""
    all_samples = samples or tuple(sample(start + 2 * number) for number in range(7))
    base = Recovery(
        node="node1", boot_id=BOOT, since=RESTART, since_from="asked", handlers=("kata",),
        before=before if before is not None else earlier(), samples=all_samples,
    )  # fmt: skip
    return replace(base, **changes)


def spoilt(recovery: Recovery, place: str, *, always: bool = False, **changes: Any) -> Recovery:
    """With fields of the newest sample changed, or of all: of the sample itself, or of the record at `place` in it."""

    def changed(one: Sample) -> Sample:
        return replace(one, **{place: replace(getattr(one, place), **changes)} if place else changes)

    rest = recovery.samples[:-1]
    return replace(recovery, samples=(*(map(changed, rest) if always else rest), changed(recovery.samples[-1])))

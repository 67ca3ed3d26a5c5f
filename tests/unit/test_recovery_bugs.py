# SPDX-License-Identifier: Apache-2.0
"""Reports of nodes that had not recovered, or were thought not to have: each as the evidence that it left, judged."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from ostreewatchd.judge.recovery import SAMPLES, judge
from ostreewatchd.model import ClusterSeen, FailedUnit, PodSeen, Recovered, Recovery, Sample
from tests.unit.recoveries import (
    KUBELET,
    PODS,
    RESTART,
    WALL,
    container,
    earlier,
    pod,
    sample,
    sandbox,
    series,
    unit,
)

Change = Callable[[Sample], Sample]


def all_the_time(change: Change) -> Recovery:
    return series(*map(change, series().samples))


def cri(one: Sample, **changes: object) -> Sample:
    return replace(one, cri=replace(one.cri, **changes))


def pods(one: Sample, changed: PodSeen) -> Sample:
    found = tuple(changed if it.uid == changed.uid else it for it in one.api.pods or ())
    return replace(one, api=replace(one.api, pods=found))


def stale_ready(one: Sample) -> Sample:
    seen = ClusterSeen(asked=one.at, ready=True, heartbeat_wall=WALL + RESTART - 2, lease_wall=WALL + one.at)
    return replace(one, cluster=seen)


def never_relists(one: Sample) -> Sample:
    return replace(one, api=replace(one.api, pleg_wall=WALL + RESTART - 1, running=()))


NOT_RECOVERED: dict[str, tuple[str, str, Change]] = {
    "sandboxed-containers-operator#1349: Ready as of before": ("node-ready", "as of before the restart", stale_ready),
    "cri-o#10343: a conmon was killed with crio's cgroup": ("monitors", "crio-conmon-1", lambda one: replace(
        one, failed_monitors=(FailedUnit(unit="crio-conmon-1.scope", at=RESTART + 0.2),))),
    "cri-o#1726: containers that run unmanaged": ("all-managed", "a" * 12, lambda one: replace(
        one, orphans=("a" * 64,))),
    "cri-o#4291: healthz says ok and nothing syncs": ("kubelet-syncs", "is to run", lambda one: replace(
        never_relists(one), api=replace(never_relists(one).api, pleg_wall=None))),
    "cri-o#5569: pods in virtual machines are not restored": ("pods-known", "default/pod-7", lambda one: cri(
        one, sandboxes=tuple(sandbox(number) for number in range(PODS) if number != 7))),
    "cri-o#4276: NetworkReady stays false": ("runtime-ready", "NetworkPluginNotReady", lambda one: cri(
        one, network_ready=False, why="NetworkReady: NetworkPluginNotReady: Network plugin returns error")),
    "machine-config-operator#6545, bottlerocket#4721: kubelet stays down": ("kubelet-unit", "inactive", lambda one:
        replace(one, kubelet=unit("kubelet.service", 11.0, active="inactive", sub="dead"))),
    "containerd#10437: stuck in Created": ("containers-run", "default/pod-2/app", lambda one: cri(
        one, containers=tuple(
            container(number, state="created" if number == 2 else "running") for number in range(PODS)))),
    "kubernetes#118559: a device was not there yet": ("pods-well", "UnexpectedAdmissionError", lambda one: pods(
        one, pod(2, phase="Failed", reason="UnexpectedAdmissionError", ready=None))),
    "sandboxed-containers-operator#1349: ImagePullBackOff": ("pods-well", "ImagePullBackOff", lambda one: pods(
        one, pod(9, ready=False, waiting=("ImagePullBackOff",)))),
    "cri-o#10202: shown and not served": ("handlers", "not served", lambda one: replace(
        one, config_wall=WALL + RESTART + 5)),
}  # fmt: skip


@pytest.mark.parametrize("report", NOT_RECOVERED)
def test_not_recovered(report: str) -> None:
    name, says, change = NOT_RECOVERED[report]
    found = judge(all_the_time(change))
    (row,) = (one for one in found.rows if one.name == name)
    assert found.verdict == "not-yet" and row.verdict in ("bad", "old") and says in row.because, row


def test_restart_makes_all_pods_anew() -> None:
    """cri-o#2479, containerd#7843: it recovers, and that it was no small thing is said."""
    anew = tuple(sandbox(number, id=f"{700 + number:064x}") for number in range(PODS))
    found = judge(all_the_time(lambda one: cri(one, sandboxes=anew)))
    assert found.verdict == "recovered" and "the restart made 30 pods anew" in found.notes[0]


def test_stuck_since_before_is_no_new_fault() -> None:
    """cri-o#6699: it did not run before."""
    stuck = tuple(container(number, state="exited" if number == 4 else "running") for number in range(PODS))
    before = cri(earlier(), containers=stuck)
    recovery = all_the_time(lambda one: cri(one, containers=stuck))
    assert judge(recovery).verdict == "not-yet"
    assert judge(replace(recovery, before=before)).verdict == "recovered"


def verdicts(change: Change, count: int) -> list[Recovered]:
    samples = [change(sample(RESTART + 6 + 2 * number)) for number in range(count)]
    return [judge(series(*samples[: number + 1])) for number in range(count)]


def test_a_name_is_reserved_for_a_minute() -> None:
    """cri-o#7010, #9097: kubelet tries again while the first call goes on; what is needed is patience."""
    until = RESTART + 66

    def change(one: Sample) -> Sample:
        waits = pod(1, ready=False, ready_changed_wall=WALL + RESTART + 3, waiting=("CreateContainerError",))
        return pods(one, waits) if one.at < until else one

    found = verdicts(change, 38)
    assert {one.verdict for one in found[:35]} == {"not-yet"} and found[-1].verdict == "recovered"


def test_watchdog_kills_it_again_and_again() -> None:
    """microshift#4410: NRestarts grows; no window is ever whole."""

    def change(one: Sample) -> Sample:
        times = int((one.at - RESTART) // 8)
        return replace(one, runtime=unit("crio.service", RESTART + 8 * times, restarts=times))

    found = verdicts(change, 30)
    assert {one.verdict for one in found} == {"not-yet"}
    assert any("started again meanwhile" in one.cause for one in found)


@pytest.mark.parametrize("flips", [True, False])
def test_readiness_over_a_restart_of_kubelet(flips: bool) -> None:
    """kubernetes#100277, KEP-4781: all False until they are probed, or all True throughout: neither is asked for, and
    both only count once kubelet has looked at its containers again."""

    def change(one: Sample) -> Sample:
        seen = one.api
        if one.at < KUBELET + 9:
            seen = replace(seen, pleg_wall=WALL + KUBELET - 3, running=())
        if flips and one.at < KUBELET + 15:
            down = tuple(pod(number, ready=False, ready_changed_wall=WALL + KUBELET + 1) for number in range(PODS))
            seen = replace(seen, pods=down)
        return replace(one, api=seen)

    found = verdicts(change, 16)
    first = next(index for index, one in enumerate(found) if one.verdict == "recovered")
    # Synced at the third sample, or Ready at the sixth, which is the first of the window.
    assert first == (5 if flips else 2) + SAMPLES - 1

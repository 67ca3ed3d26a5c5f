# SPDX-License-Identifier: Apache-2.0
"""Recovery's truth table: all rows good is recovered; one bad, absent or older than the restart is not, and is
named."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from msgspec.structs import replace

from ostreewatchd.judge.recovery import SAMPLES, WINDOW, judge
from ostreewatchd.judge.recovery.since import last_restart
from ostreewatchd.model import (
    ClusterSeen,
    CriSeen,
    FailedUnit,
    History,
    KubeletSeen,
    PastAct,
    Recovered,
    Recovery,
    RowVerdict,
    Subject,
    UnitSeen,
)
from tests.unit.recoveries import (
    BOOT,
    KUBELET,
    PODS,
    RESTART,
    WALL,
    container,
    pod,
    sample,
    sandbox,
    series,
    spoilt,
    uid,
    unit,
)

ROWS = (
    "same-boot", "runtime-unit", "runtime-ready", "handlers", "kubelet-unit", "kubelet-health", "kubelet-syncs",
    "node-ready", "node-lease", "pods-known", "all-managed", "containers-run", "monitors", "pods-ready", "pods-well",
    "critical-pods",
)  # fmt: skip
LONG_AGO = RESTART - 100


def verdicts(found: Recovered) -> dict[str, RowVerdict]:
    return {row.name: row.verdict for row in found.rows}


def hinders(found: Recovered) -> dict[str, RowVerdict]:
    return {name: verdict for name, verdict in verdicts(found).items() if verdict not in ("good", "unseen")}


def first(number: int, *changed: Any, of: Any) -> tuple[Any, ...]:
    """All of them, with the first ones changed."""
    return (*changed, *(of(one) for one in range(number, PODS)))


def test_all_good_is_recovered() -> None:
    found = judge(series())
    assert verdicts(found) == dict.fromkeys(ROWS, "good")
    assert (found.verdict, found.cause, found.alarm, found.notes) == ("recovered", "", "", ())
    assert found.steady == 12.0 >= WINDOW and len(series().samples) == 7 > SAMPLES


TABLE: list[tuple[str, RowVerdict, str, dict[str, Any]]] = [
    ("same-boot", "bad", "", {"boot_id": "another"}),
    ("runtime-unit", "bad", "runtime", {"active": "activating", "sub": "start"}),
    ("runtime-unit", "bad", "runtime", {"result": "watchdog"}),
    ("runtime-unit", "bad", "runtime", {"restarts": 1}),
    ("runtime-unit", "absent", "", {"runtime": UnitSeen(unit="crio.service", problem="systemd does not answer")}),
    ("runtime-unit", "old", "", {"runtime": unit("crio.service", 20.0), "config_wall": WALL}),
    ("runtime-unit", "old", "", {"runtime": unit("crio.service", RESTART, invocation="crio.service-10")}),
    ("runtime-unit", "old", "", {"config_wall": WALL + RESTART + 3}),
    ("runtime-ready", "bad", "cri", {"network_ready": False, "why": "NetworkReady: NetworkPluginNotReady"}),
    ("runtime-ready", "bad", "cri", {"ready": False}),
    ("runtime-ready", "bad", "", {"cri": CriSeen(asked=1032.0, problem="gave no answer to Version")}),
    ("runtime-ready", "absent", "cri", {"network_ready": None}),
    ("runtime-ready", "old", "cri", {"asked": LONG_AGO}),
    ("handlers", "bad", "cri", {"handlers": ("", "runc")}),
    ("handlers", "absent", "", {"config_wall": None}),
    ("handlers", "old", "", {"config_wall": WALL + RESTART + 3}),
    ("kubelet-unit", "bad", "kubelet", {"active": "inactive", "sub": "dead"}),
    ("kubelet-unit", "bad", "kubelet", {"restarts": 3}),
    ("kubelet-unit", "absent", "", {"kubelet": UnitSeen()}),
    ("kubelet-health", "bad", "api", {"healthy": False, "health_problem": "healthz: HTTP 500"}),
    ("kubelet-health", "bad", "api", {"api_healthy": False}),
    ("kubelet-health", "old", "api", {"asked": KUBELET - 0.5}),
    ("kubelet-syncs", "bad", "api", {"pleg_wall": None, "running": tuple(map(uid, range(1, PODS)))}),
    ("kubelet-syncs", "bad", "api", {"pleg_wall": None, "running": tuple(map(uid, range(PODS + 1)))}),
    ("kubelet-syncs", "absent", "api", {"pleg_wall": None, "pods": None, "running": None, "problem": "no answer"}),
    ("kubelet-syncs", "old", "api", {"pleg_wall": WALL + LONG_AGO, "pods": None, "running": None}),
    ("node-ready", "bad", "cluster", {"ready": False}),
    ("node-ready", "absent", "cluster", {"ready": None}),
    ("node-ready", "absent", "cluster", {"problem": "the API server does not answer"}),
    ("node-ready", "old", "cluster", {"heartbeat_wall": WALL + KUBELET - 1}),
    ("node-lease", "bad", "", {"at": 1200.0, "wall": WALL + 1200.0}),
    ("node-lease", "absent", "cluster", {"lease_wall": None}),
    ("node-lease", "old", "cluster", {"lease_wall": WALL + KUBELET - 0.1}),
    ("pods-known", "bad", "cri", {"sandboxes": first(1, sandbox(0, ready=False), of=sandbox)}),
    ("pods-known", "bad", "cri", {"sandboxes": first(1, of=sandbox)}),
    ("pods-known", "absent", "", {"cri": CriSeen(asked=1032.0, problem="gave no answer to Version")}),
    ("pods-known", "old", "cri", {"asked": LONG_AGO}),
    ("all-managed", "bad", "", {"orphans": ("a" * 64,)}),
    ("all-managed", "absent", "", {"orphans": None}),
    ("all-managed", "old", "cri", {"asked": LONG_AGO}),
    (
        "containers-run",
        "bad",
        "cri",
        {"containers": first(1, container(0, state="exited", exit_code=1), of=container)},
    ),
    ("containers-run", "bad", "cri", {"containers": first(1, of=container)}),
    ("containers-run", "bad", "cri", {"containers": first(1, container(0, attempt=1), of=container)}),
    ("containers-run", "bad", "cri", {"containers": first(1, container(0, state="created"), of=container)}),
    ("containers-run", "absent", "", {"cri": CriSeen(asked=1032.0, problem="gave no answer to Version")}),
    ("containers-run", "old", "cri", {"asked": LONG_AGO}),
    ("monitors", "bad", "", {"failed_monitors": (FailedUnit(unit="crio-conmon-1.scope", at=RESTART + 1),)}),
    ("monitors", "absent", "", {"failed_monitors": None}),
    ("pods-ready", "bad", "api", {"pods": first(1, pod(0, ready=False), of=pod)}),
    ("pods-ready", "bad", "api", {"pods": first(1, pod(0, phase="Failed", ready=False), of=pod)}),
    ("pods-ready", "absent", "api", {"pods": None, "problem": "no answer"}),
    ("pods-ready", "old", "api", {"asked": KUBELET - 0.5}),
    ("pods-well", "bad", "api", {"pods": first(1, pod(0, waiting=("ImagePullBackOff",)), of=pod)}),
    ("pods-well", "bad", "api", {"pods": first(1, pod(0, phase="Failed", reason="UnexpectedAdmissionError"), of=pod)}),
    ("pods-well", "bad", "api", {"pods": first(1, pod(0, restarts=1), of=pod)}),
    ("pods-well", "absent", "api", {"pods": None, "problem": "no answer"}),
    ("pods-well", "old", "api", {"asked": KUBELET - 0.5}),
    ("critical-pods", "bad", "api", {"pods": first(1, pod(0, ready=False), of=pod)}),
    ("critical-pods", "absent", "api", {"pods": None, "problem": "no answer"}),
    ("critical-pods", "old", "api", {"asked": KUBELET - 0.5}),
]


@pytest.mark.parametrize(("row", "verdict", "place", "changes"), TABLE)
def test_one_row_that_is_not_good(row: str, verdict: RowVerdict, place: str, changes: dict[str, Any]) -> None:
    # What is old has been so all the time: what became another one meanwhile is bad.
    found = judge(spoilt(series(), place, always=verdict == "old", **changes))
    assert hinders(found)[row] == verdict
    assert found.verdict == ("cannot-know" if set(hinders(found).values()) == {"absent"} else "not-yet")
    assert found.cause and found.steady == 0.0
    # What else is not good is so for the same evidence.
    assert set(hinders(found)) <= set(ROWS) and any(name in found.cause for name in hinders(found))


def test_the_table_is_whole() -> None:
    """Each row bad; absent and old too, where its evidence can be that."""
    seen = {(row, verdict) for row, verdict, _, _ in TABLE}
    assert {row for row, _ in seen} == set(ROWS)
    never = {
        ("same-boot", "absent"), ("same-boot", "old"), ("kubelet-unit", "old"), ("kubelet-health", "absent"),
        ("monitors", "old"),
    }  # fmt: skip
    assert {(row, verdict) for row in ROWS for verdict in ("bad", "absent", "old")} - seen == never


def test_each_pod_that_stays_down_names_itself() -> None:
    for number in range(PODS):
        pods = tuple(pod(one, ready=one != number) for one in range(PODS))
        found = judge(spoilt(series(), "api", pods=pods))
        row = next(one for one in found.rows if one.name == "pods-ready")
        assert (found.verdict, row.because) == ("not-yet", f"not Ready: default/pod-{number}")
        containers = tuple(container(one, state="exited" if one == number else "running") for one in range(PODS))
        row = next(
            one for one in judge(spoilt(series(), "cri", containers=containers)).rows if one.name == "containers-run"
        )
        assert row.because == f"down since the restart: default/pod-{number}/app (exit None)"


def test_recovered_only_when_the_last_of_thirty_is_ready_again() -> None:
    """kubelet's restart sets them all False, and they come back one by one, one a second."""
    samples = []
    for number in range(30):
        at = RESTART + 5 + 2 * number
        one = sample(at)
        pods = tuple(
            pod(one, ready=at >= RESTART + 5 + one, ready_changed_wall=WALL + RESTART + 2) for one in range(PODS)
        )
        samples.append(replace(one, api=replace(one.api, pods=pods)))
    decided = [judge(series(*samples[: count + 1])).verdict for count in range(30)]
    # The last is Ready at 29 s, seen at 30 s; ten seconds later it counts.
    assert decided.index("recovered") == 20 and set(decided[20:]) == {"recovered"}
    assert set(decided[:20]) == {"not-yet"}


def test_a_stale_ready_first() -> None:
    """Ready, Ready, not Ready, Ready, …: what counts is from the last break on (kata-deploy's lesson)."""
    samples = [sample(RESTART + 20 + 2 * number) for number in range(12)]
    bad = samples[5]
    samples[5] = replace(bad, api=replace(bad.api, pods=first(1, pod(0, ready=False), of=pod)))
    assert judge(series(*samples[:5])).verdict == "not-yet"
    assert [judge(series(*samples[: count + 1])).verdict for count in range(5, 12)][:6] == ["not-yet"] * 6
    assert judge(series(*samples)).verdict == "recovered"


def test_a_unit_that_flaps_begins_the_window_anew() -> None:
    samples = [sample(RESTART + 20 + 2 * number) for number in range(7)]
    after = [replace(one, runtime=unit("crio.service", RESTART + 31, restarts=1)) for one in samples[-1:]]
    found = judge(series(*samples[:-1], *after))
    assert hinders(found)["runtime-unit"] == "bad" and "started again" in found.cause


def test_a_gap_breaks_the_window() -> None:
    samples = [sample(RESTART + 20 + 2 * number) for number in range(4)]
    later = [sample(RESTART + 60 + 2 * number) for number in range(4)]
    found = judge(series(*samples, *later))
    assert (found.verdict, found.steady) == ("not-yet", 6.0)


def test_without_credentials_the_local_rows_decide() -> None:
    samples = []
    for one in series().samples:
        api = KubeletSeen(asked=one.at, healthy=True, directories=one.api.directories, unseen="HTTP 401")
        samples.append(replace(one, cluster=None, api=api))
    found = judge(series(*samples))
    unseen = {name for name, verdict in verdicts(found).items() if verdict == "unseen"}
    assert found.verdict == "recovered"
    assert unseen == {"kubelet-syncs", "node-ready", "node-lease", "pods-ready", "pods-well", "critical-pods"}
    assert all("HTTP 401" in row.because for row in found.rows if row.name in unseen - {"node-ready", "node-lease"})


@pytest.mark.parametrize("before", [True, False])
def test_ready_and_knows_none_of_its_pods(before: bool) -> None:
    """cri-o after a damaged layer: READY=1, no pod known, containers without anybody."""
    orphans = tuple(f"{number:064x}" for number in range(20))
    samples = [
        replace(one, cri=replace(one.cri, sandboxes=(), containers=()), orphans=orphans) for one in series().samples
    ]
    recovery = series(*samples)
    found = judge(recovery if before else replace(recovery, before=None))
    assert found.verdict == "not-yet"
    assert "knows none of its pods, and 20 containers run unmanaged" in found.alarm
    assert {"pods-known", "all-managed"} <= set(hinders(found))


def test_ready_and_removes_its_pods() -> None:
    """Another minor version, or no version file: no line of its journal says so."""
    left = [sample(RESTART + 20 + 2 * number) for number in range(7)]
    for index, one in enumerate(left):
        count = max(0, PODS - 5 * index)
        cri = replace(one.cri, sandboxes=tuple(map(sandbox, range(count))), containers=())
        left[index] = replace(one, cri=cri)
    for count in range(2, 6):
        found = judge(replace(series(*left[:count]), before=None))
        assert found.verdict == "not-yet" and "removing its pods" in found.alarm, found
    found = judge(replace(series(*left), before=None))
    assert found.verdict == "not-yet" and "knows none of its pods" in found.alarm


def test_pods_that_are_made_anew_are_told() -> None:
    samples = []
    for one in series().samples:
        anew = tuple(sandbox(number, id=f"{500 + number:064x}") for number in range(PODS))
        samples.append(replace(one, cri=replace(one.cri, sandboxes=anew)))
    found = judge(series(*samples))
    assert found.verdict == "recovered" and "made 30 pods anew" in found.notes[0]


def test_what_was_down_before_is_not_waited_for() -> None:
    """With a record from before, and without one by when its condition changed."""
    down = pod(5, ready=False, ready_changed_wall=WALL + 100)
    samples = tuple(
        replace(one, api=replace(one.api, pods=tuple(down if it.uid == down.uid else it for it in one.api.pods or ())))
        for one in series().samples
    )
    before = sample(RESTART - 5)
    was = replace(before, runtime=unit("crio.service", 10.0), api=samples[0].api)
    for found in (judge(series(*samples, before=was)), judge(replace(series(*samples), before=None))):
        assert found.verdict == "recovered" and "not waited for: default/pod-5" in found.notes[-1]
    assert judge(series(*samples)).verdict == "not-yet"


def test_a_pod_that_its_controller_replaced() -> None:
    """Another UID, Ready: good. Not Ready: not yet, by its own name."""

    def changed(ready: bool) -> Recovery:
        samples = []
        for one in series().samples:
            new = pod(77, ready=ready, ready_changed_wall=WALL + RESTART + 4)
            numbers = (*range(1, PODS), 77)
            api = replace(one.api, pods=(*map(pod, range(1, PODS)), new), running=tuple(map(uid, numbers)),
                          directories=tuple(map(uid, numbers)))  # fmt: skip
            cri = replace(one.cri, sandboxes=tuple(map(sandbox, numbers)), containers=tuple(map(container, numbers)))
            samples.append(replace(one, api=api, cri=cri))
        return series(*samples)

    assert judge(changed(ready=True)).verdict == "recovered"
    found = judge(changed(ready=False))
    assert found.verdict == "not-yet" and "default/pod-77" in found.cause


def test_late_pleg_is_unhealthy() -> None:
    """Well after 5 s, and not after 185 s: nobody has looked at the containers since."""
    early = sample(RESTART + 8)
    assert judge(series(early), window=0, samples=1).verdict == "recovered"
    late = sample(RESTART + 200)
    stuck = replace(late, api=replace(late.api, pleg_wall=WALL + RESTART + 8))
    found = judge(series(stuck), window=0, samples=1)
    assert hinders(found) == {"kubelet-syncs": "bad"} and "PLEG is unhealthy" in found.cause
    assert judge(series(late), window=0, samples=1).verdict == "recovered"


def test_a_heartbeat_of_the_same_second_counts_and_the_lease_decides() -> None:
    """The Node's has whole seconds, and the next write may be five minutes away."""
    same = {"heartbeat_wall": WALL + KUBELET}
    changed = series(
        *(replace(one, cluster=replace(one.cluster or ClusterSeen(), **same)) for one in series().samples)
    )
    assert judge(changed).verdict == "recovered"


def test_a_kubelet_that_the_restart_left_alone() -> None:
    """Its heartbeat may be minutes old on a healthy node; the lease tells."""
    samples = [
        replace(
            one, kubelet=unit("kubelet.service", 11.0),
            cluster=ClusterSeen(asked=one.at, ready=True, heartbeat_wall=WALL + RESTART - 250,
                                lease_wall=WALL + one.at - 3),
        )
        for one in series().samples
    ]  # fmt: skip
    assert judge(series(*samples)).verdict == "recovered"


@pytest.mark.parametrize("lost", [True, False])
def test_display_is_no_proof_of_a_handler(lost: bool) -> None:
    """cri-o#10202: after a SIGHUP the handler is shown, by a process that was started before its drop-in came."""
    samples = [replace(one, config_wall=WALL + RESTART + (5 if lost else -5)) for one in series().samples]
    found = judge(series(*samples))
    assert (found.verdict == "recovered") is not lost
    assert (verdicts(found)["handlers"] == "old") is lost


def test_the_restart_is_the_ledgers_newest_of_this_boot() -> None:
    def act(number: int, boot: str, outcome: Any = "cured", name: str = "crio.service") -> PastAct:
        subject = Subject(kind="unit", unit=name)
        return PastAct(id=number, switch_id="s", step="restart-unit", subject=subject, because="", boot_id=boot,
                       intent_at=0.0, intent_boottime=number * 10.0, outcome=outcome)  # fmt: skip

    acts = (act(1, BOOT), act(2, BOOT, ""), act(3, BOOT, "not-done"), act(4, "other"), act(5, BOOT, name="x.service"))
    found: Optional[PastAct] = last_restart(History(acts=acts), BOOT, "crio.service")
    assert found is not None and found.id == 2
    assert last_restart(History(), BOOT, "crio.service") is None


def test_nothing_seen() -> None:
    assert judge(Recovery(boot_id=BOOT, since=0.0)).verdict == "cannot-know"

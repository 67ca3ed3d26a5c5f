# SPDX-License-Identifier: Apache-2.0
"""Refusals with a time: a pause, windows, a budget, kubelet's back-off; and what no restart can cure."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ostreewatchd.judge import judge
from ostreewatchd.model import Ostree, Plan, Refusal, Settings, Sight, Window
from ostreewatchd.parse.times import windows
from ostreewatchd.plan import plan
from ostreewatchd.plan.windows import opens_at
from ostreewatchd.report import words
from tests.unit.worlds import BOOTED_AT, CNI, NEW, NOW, OLD, RUNTIME, UPTIME, World, names, stale, world


def made(built: World, **settings: object) -> Plan:
    snapshot = built.snapshot()
    return plan(snapshot, judge(snapshot), msgspec.structs.replace(Settings(), **settings))


def refusal(built: World, **settings: object) -> Refusal:
    found = made(built, **settings)
    assert not found.steps, found.steps
    (one,) = found.refusals
    assert one.because and one.ends
    return one


def attempts(built: World, **settings: object) -> list[str]:
    found = made(built, **settings)
    assert not found.refusals, found.refusals
    return [step.subject.container for step in found.steps]


# --- a pause ------------------------------------------------------------------------------------------------------


def test_paused_says_who_why_and_until_when() -> None:
    one = refusal(stale().pause())
    assert (one.name, one.subject, one.alarm) == ("paused", None, False)
    assert "ops" in one.because and "a demo" in one.because
    assert one.ends_at == NOW - 60 + 7200 and words.when(one.ends_at) in words.refusal(one)


def test_a_pause_that_is_over_or_was_of_another_boot_does_not_hold() -> None:
    assert attempts(stale().pause(seconds=59.0))
    assert attempts(stale().pause(boot="another")), "the host has been up for longer than it was to last"
    assert refusal(stale().pause(seconds=UPTIME + 5000, ago=10.0, boot="another")).name == "paused"


def test_a_pause_that_cannot_be_read_holds_and_is_an_alarm() -> None:
    one = refusal(stale().pause(problem="pause.json: torn", seconds=0.0))
    assert one.name == "paused" and one.alarm and "torn" in one.because


def test_nothing_owed_is_not_refused_for_a_pause() -> None:
    assert made(world().pause()) == Plan()


# --- windows ------------------------------------------------------------------------------------------------------

# 2027-01-15, a Friday, 08:00 UTC.
assert NOW % 86400 == 8 * 3600 and (NOW // 86400 + 3) % 7 == 4


@pytest.mark.parametrize(
    ("text", "opens"),
    [
        ("", None),
        ("Fri 07:00-09:00", None),
        ("Fri 08:00-08:01", None),
        ("07:00-09:00", None),
        ("Thu 23:00-08:01", None),
        ("Fri 09:00-10:00", 3600.0),
        ("Fri 07:00-08:00", 7 * 86400 - 3600.0),
        ("Sat 02:00-04:00", 18 * 3600.0),
        ("Sat 02:00-04:00, Fri 20:00-21:00", 12 * 3600.0),
        ("Mon-Thu 00:00-24:00", 3 * 86400 - 8 * 3600.0),
        ("Sun-Fri 08:00-08:30", None),
    ],
)
def test_when_the_next_window_opens(text: str, opens: float | None) -> None:
    assert opens_at(windows(text), NOW) == (None if opens is None else NOW + opens)


def test_a_window_over_the_end_of_the_week() -> None:
    (window,) = windows("Sun 23:00-01:00")
    monday = NOW - 4 * 86400 - 8 * 3600
    assert opens_at([window], monday + 3599) is None
    assert opens_at([window], monday + 3600) == monday + 7 * 86400 - 3600
    assert opens_at([window], monday + 7 * 86400 - 3601) == monday + 7 * 86400 - 3600


def test_outside_of_all_windows_nothing_is_restarted() -> None:
    one = refusal(stale(), windows=windows("Sat 02:00-04:00"))
    assert (one.name, one.subject, one.alarm) == ("outside-window", None, False)
    assert one.ends_at == NOW + 18 * 3600 and "Sat 02:00-Sat 04:00" in one.because and "UTC" in one.because
    assert attempts(stale(), windows=windows("Fri 07:00-09:00"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Sat", "not of the form"),
        ("02:00", "not of the form"),
        ("Sat 02:00-04:00 CET", "in UTC and in no other zone"),
        ("Son 02:00-04:00", "'Son' is no day"),
        ("Mon-Fre 02:00-04:00", "'Fre' is no day"),
        ("02:00-29:00", "no time of the day"),
        ("02:60-04:00", "not of the form"),
        (", ".join(f"0{n % 10}:{n}-09:59" for n in range(10, 59)) + ", Mon-Sat 01:00-02:00", "more than 50"),
    ],
)
def test_a_window_that_is_none(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        windows(text)


def test_windows_are_read_as_they_are_written() -> None:
    assert windows("sat 2:00 - 04:00 utc") == (Window(start=5 * 1440 + 120, minutes=120),)
    assert str(windows("Sun 23:30-01:00")[0]) == "Sun 23:30-Mon 01:00"
    assert len(windows("02:00-04:00")) == 7 and len(windows("Fri-Mon 02:00-04:00")) == 4
    assert windows("Mon 02:00-04:00, Mon 02:00-04:00,") == (Window(start=120, minutes=120),)
    assert windows("Mon 00:00-24:00") == (Window(start=0, minutes=1440),)


# --- the budget ---------------------------------------------------------------------------------------------------


def spent(count: int, *, switch: str = "s1", **more: object) -> World:
    built = stale().switch()
    for number in range(count):
        more.setdefault("outcome", "cured")
        built.act(switch=switch, name=f"other-{number}", container_id="0" * 64, **more)  # type: ignore[arg-type]
    return built


def test_the_budget_of_a_switch() -> None:
    assert attempts(spent(2), per_switch=3)
    one = refusal(spent(3), per_switch=3)
    assert one.name == "budget" and one.alarm and "RestartsPerSwitch=3" in one.because
    assert attempts(spent(3, switch="s0"), per_switch=3), "of another switch"
    assert attempts(spent(3, outcome="not-needed"), per_switch=3), "it stopped nothing"
    assert attempts(spent(3, outcome="not-done"), per_switch=3), "nor did it"
    assert refusal(spent(3, outcome="superseded", pod_uid="gone"), per_switch=3).name == "budget", "it may have"


def test_the_budget_of_an_hour_ends_by_itself() -> None:
    assert attempts(spent(2, switch="s0"), per_hour=3)
    one = refusal(spent(3, switch="s0"), per_hour=3)
    assert one.name == "budget" and not one.alarm and one.ends_at == NOW - 30 + 3600
    assert attempts(spent(3, switch="s0", ago=3600.0), per_hour=3)


def test_an_hour_is_told_by_the_clock_that_nobody_sets() -> None:
    def moved(by: float) -> World:
        built = spent(3, switch="s0")
        history = built.snapshot().history
        acts = tuple(msgspec.structs.replace(act, intent_at=act.intent_at + by) for act in history.acts)
        return built.history(acts=acts)

    assert refusal(moved(-1e6), per_hour=3).name == "budget", "the clock was set forward since"
    assert refusal(moved(1e6), per_hour=3).name == "budget", "the clock was set back since"
    assert attempts(spent(3, switch="s0", boot="another"), per_hour=3), "this boot is older than an hour"
    assert refusal(spent(3, switch="s0", boot=""), per_hour=3).name == "budget", "an older version's act"
    assert attempts(spent(3, switch="s0", boot="", ago=3601.0), per_hour=3)


def test_an_act_of_an_earlier_boot_gets_no_older_by_a_clock_that_was_set_forward() -> None:
    """Whoever wrote down both clocks before that tells by how much: here the switch that was seen in this boot."""

    def refused(uptime: float, forward: float) -> set[str]:
        snapshot = msgspec.structs.replace(
            spent(3, switch="s0", boot="another", ago=UPTIME + 600.0).switch(seen=60.0).snapshot(),
            taken_boottime=uptime,
            taken_at=BOOTED_AT + uptime + forward,
        )
        return {one.name for one in plan(snapshot, judge(snapshot), Settings(per_hour=3)).refusals}

    assert "budget" in refused(100.0, 0.0), "they were ten minutes before the boot"
    assert "budget" in refused(100.0, 7200.0)
    assert "budget" not in refused(3001.0, 0.0)


def test_what_is_left_of_the_budget_is_spent_in_order() -> None:
    built = world().host(CNI, NEW).switch()
    for name in ("zzz", "kube-multus", "calico-node"):
        built.container(name).bind(CNI, OLD)
    found = made(built, per_switch=2)
    assert [one.subject.container for one in found.steps] == ["calico-node", "kube-multus"]
    assert [(one.name, one.subject.container) for one in found.refusals if one.subject] == [("budget", "zzz")]
    assert made(built, per_hour=0).steps == ()


def test_an_act_that_is_taken_up_again_costs_nothing() -> None:
    """It was counted when it was intended; and what it began has to end."""
    assert attempts(stale().switch().act(), per_switch=1, per_hour=1) == ["calico-node"]


# --- kubelet's back-off -------------------------------------------------------------------------------------------


def young(attempt: int, *, age: float = 100.0) -> World:
    return stale(attempt=attempt, started=UPTIME - age)


def waits(built: World) -> float:
    """The part of the proof's time that is kubelet's."""
    (step,) = made(built).steps
    return step.allowance


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(0, 0.0), (1, 10.0), (2, 20.0), (3, 40.0)],
)
def test_the_delay_that_is_known_is_allowed_for(attempt: int, seconds: float) -> None:
    """kubernetes: at once, then 10 s, doubled with each restart."""
    assert waits(young(attempt)) == seconds


def test_a_stop_that_would_leave_it_down_for_minutes_is_refused() -> None:
    one = refusal(young(4))
    assert one.name == "kubelet-back-off" and not one.alarm and "up to 80 s" in one.because
    assert one.ends_at == BOOTED_AT + UPTIME - 100 + 600, "10 min after its start kubelet has forgotten it"
    assert "up to 300 s" in refusal(young(9)).because and "up to 300 s" in refusal(young(5000)).because


def test_what_ran_for_ten_minutes_is_started_at_once() -> None:
    assert waits(young(9, age=601.0)) == 0.0
    assert refusal(young(9, age=599.0)).name == "kubelet-back-off"


def test_the_attempt_before_tells_more() -> None:
    """How long kubelet waited then, and whether it had forgotten by then."""
    start = UPTIME - 100
    assert waits(young(9).ended(attempt=8, created=start - 5000, finished=start - 45)) == 10.0, "it had run for long"
    assert waits(young(9).ended(attempt=8, created=start - 30, finished=start - 11)) == 20.0, "it waited for 10 s"
    assert waits(young(9).ended(attempt=8, created=start - 60, finished=start - 25)) == 40.0, "it waited for 20 s"
    assert waits(young(9).ended(attempt=8, created=start - 30, finished=start - 1)) == 10.0, "it did not wait"
    built = young(9).ended(attempt=8, created=start - 120, finished=start - 85)
    assert "up to 160 s" in refusal(built).because
    built = young(9).ended(attempt=8, created=start - 900, finished=start - 500)
    assert "up to 300 s" in refusal(built).because


def test_evidence_that_a_clock_step_spoiled_is_none() -> None:
    start = UPTIME - 100
    assert refusal(young(9).ended(attempt=8, created=start + 50, finished=start + 60)).name == "kubelet-back-off"


def test_another_containers_past_is_its_own() -> None:
    start = UPTIME - 100
    for pod in ("another", "calico-node-x1"):
        built = young(9).container("b", pod=pod, attempt=3, started=start)
        built.ended(attempt=2, created=start - 9e3, finished=start - 1)
        assert refusal(built).name == "kubelet-back-off"


# --- nothing cures it ---------------------------------------------------------------------------------------------


def test_a_host_without_the_path_is_named() -> None:
    """kubernetes#128814: a restart would make the directory, empty, or fail."""
    absent = Sight(problem="No such file or directory", absent=True)
    one = refusal(world().host(CNI, absent).container("a").bind(CNI, OLD))
    assert one.name == "host-path-missing" and one.subject is not None and CNI in one.because
    assert made(world().host(CNI, absent).container("a").bind(CNI, OLD, writable=False)) == Plan()
    assert made(world().host(CNI, absent).container("a").bind(CNI, OLD).part(torn="x")) == Plan()
    unknown = Sight(problem="Permission denied")
    assert made(world().host(CNI, unknown).container("a").bind(CNI, OLD)) == Plan()
    assert made(world().host("/usr", absent).container("a").bind("/usr", OLD)) == Plan(), "no CNI directory"


def test_a_missing_path_holds_up_nobody_else() -> None:
    built = stale("calico-node").host(f"{CNI}/x.d", Sight(problem="gone", absent=True))
    found = made(built.container("b").bind(f"{CNI}/x.d", OLD))
    assert names(found.refusals) == ["host-path-missing"] and len(found.steps) == 1


def test_a_runtime_that_has_not_seen_the_switch_is_a_persons() -> None:
    """Invariant 5: a unit restart is only recommended."""
    built = world().host(CNI, NEW).host(CNI, OLD, namespace=RUNTIME).daemon(namespace=RUNTIME)
    one = refusal(built.container("calico-node", binder=RUNTIME).bind(CNI, OLD))
    assert one.name == "runtime-is-stale" and one.alarm and "containerd.service" in one.ends


def test_a_runtime_of_which_nothing_is_known_is_not_blamed() -> None:
    built = world().host(CNI, NEW).host(CNI, OLD, namespace=RUNTIME)
    assert made(built.container("calico-node", binder=RUNTIME).bind(CNI, OLD)) == Plan()


# --- the node goes down -------------------------------------------------------------------------------------------


def test_what_ends_a_switch_in_progress_is_said() -> None:
    """DESIGN §6: a flag that says "mounting" always blocks; one that says "my script is still to run" does not."""
    assert "SettleCapSec" in refusal(stale().flag(always=False, age=5)).ends
    assert "SettleCapSec" not in refusal(stale().flag(always=True, age=5)).ends


def test_a_soft_reboot_is_told_from_a_shutdown() -> None:
    built = stale().system(state="stopping")
    assert refusal(built).name == "shutting-down"
    one = refusal(built.part(ostree=Ostree(next_root="debian-x.0")))
    assert one.name == "soft-rebooting" and "debian-x.0" in one.because
    assert attempts(stale().part(ostree=Ostree(next_root="debian-x.0"))), "prepared, and nobody has ordered it yet"


def test_words_stay_the_same_while_their_cause_does() -> None:
    """A refusal is news when its words are: a minute later they are the same."""
    for built, settings in (
        (stale().pause(), {}),
        (stale(), {"windows": windows("Sat 02:00-04:00")}),
        (young(9), {}),
        (spent(3, switch="s0"), {"per_hour": 3}),
    ):
        before = built.snapshot()
        after = msgspec.structs.replace(
            before, taken_at=before.taken_at + 59.0, taken_boottime=before.taken_boottime + 59.0
        )
        config = msgspec.structs.replace(Settings(), **settings)
        assert [words.refusal(one) for one in plan(before, judge(before), config).refusals] == [
            words.refusal(one) for one in plan(after, judge(after), config).refusals
        ]


# --- rpm-ostree ---------------------------------------------------------------------------------------------------


def test_nothing_is_restarted_while_rpm_ostree_is_at_work() -> None:
    one = refusal(stale().rpm_ostree(installed=True, owned=True, transaction=True, title="LiveFs of x"))
    assert (one.name, one.subject, one.alarm) == ("transaction-under-way", None, False)
    assert one.because == "rpm-ostree is at work: LiveFs of x is under way"


@pytest.mark.parametrize(
    "view",
    [
        {"installed": False, "owned": False, "transaction": False},
        {"installed": True, "owned": False, "transaction": False},
        {"installed": True, "owned": True, "transaction": False},
        {"installed": True, "owned": True, "problem": "no answer within 3 s"},
        {"problem": "/run/dbus/system_bus_socket: No such file or directory"},
    ],
)
def test_rpm_ostree_blocks_only_while_it_says_that_it_is_at_work(view: dict[str, Any]) -> None:
    """Where it is not known, libostree's own lock and references tell."""
    assert attempts(stale().rpm_ostree(**view))

# SPDX-License-Identifier: Apache-2.0
"""From findings to steps and refusals: DESIGN §7's conditions, §5's invariants, each refusal by its name."""

from __future__ import annotations

import msgspec
import pytest

from ostreewatchd.judge import judge
from ostreewatchd.model import OutcomeName, Plan, Refusal, Settings, Step
from ostreewatchd.plan import plan
from tests.unit.worlds import (
    BOOT,
    CNI,
    NEW,
    NEW_NAME,
    OLD,
    OLD_NAME,
    World,
    gone,
    hex_id,
    names,
    stale,
    there,
    world,
)


def made(built: World, **settings: object) -> Plan:
    snapshot = built.snapshot()
    return plan(snapshot, judge(snapshot), msgspec.structs.replace(Settings(), **settings))


def step(built: World) -> Step:
    found = made(built)
    assert not found.refusals, found.refusals
    (one,) = found.steps
    return one


def refusal(built: World) -> Refusal:
    found = made(built)
    assert not found.steps, found.steps
    (one,) = found.refusals
    assert one.because and one.ends
    return one


def test_the_seeds_bug_is_one_stop() -> None:
    """Invariant 5: the smallest cure; 11: it says why nothing smaller and nothing larger."""
    one = step(stale())
    assert (one.kind, str(one.subject)) == ("stop-container", "kube-system/calico-node-x1/calico-node")
    assert one.subject.container_id == hex_id("calico-node-x1", "calico-node", 0)
    assert one.sandbox_id == hex_id("calico-node-x1", "sandbox")
    assert "DaemonSet" in one.because and one.smaller and one.larger


def test_nothing_owed_is_an_empty_plan_whatever_else_is_wrong() -> None:
    """Unknown and noted restart nothing, and a broken node is no news then."""
    broken = world().system(problem="x").runtime(problem="y").kubelet(problem="z", refusal="r").flag()
    assert made(broken.host("/usr", there(2)).container("a").bind("/usr", there(1))) == Plan()


def test_several_binds_of_one_container_are_one_step() -> None:
    built = stale().host(f"{CNI}/multus.d", there(71)).bind(f"{CNI}/multus.d", there(70, serial=500))
    built.host("/usr", there(2)).bind("/usr", there(1))
    assert len(made(built.host(f"{CNI}/multus.d", there(71, serial=900))).steps) == 1


# --- exactly once -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["cured", "pod-gone", "abandoned", ""])
def test_restarted_in_this_switch_already(outcome: OutcomeName) -> None:
    """Invariant 6: the same subject (pod UID and container name), another container."""
    one = refusal(stale().switch().act(container_id="0" * 64, outcome=outcome))
    assert one.name == "already-restarted" and one.alarm and "act 1" in one.because


@pytest.mark.parametrize("outcome", ["cured", "not-cured"])
def test_another_switch_is_another_cure(outcome: OutcomeName) -> None:
    """Invariant 6: at most once a switch."""
    assert step(stale().switch("s2").act(switch="s1", container_id="0" * 64, outcome=outcome))
    # The ledger does not know the live switch yet.
    assert step(stale().switch("s1", fingerprint="before").act(switch="s1", container_id="0" * 64, outcome=outcome))


def test_another_subjects_restart_is_its_own() -> None:
    for more in ({"pod_uid": "other"}, {"name": "other"}):
        assert step(stale().switch().act(container_id="0" * 64, outcome="cured", **more))


def test_an_intent_without_outcome_for_this_very_container_is_taken_up() -> None:
    """Invariant 6, after a crash before the stop: stopping what still runs cannot be a second time."""
    assert step(stale().switch().act())


def test_a_stop_of_this_very_container_that_ended_is_not_tried_again() -> None:
    one = refusal(stale().switch().act(outcome="pod-gone"))
    assert one.name == "already-restarted" and "pod-gone" in one.because


def test_a_step_that_was_not_needed_is_no_restart() -> None:
    """Invariant 4: a second look that could not tell must not use up the cure of this switch."""
    assert step(stale().switch().act(outcome="not-needed"))


# --- what the ledger remembers of the order ------------------------------------------------------------------------

NO_SERIALS = (
    there(10347112, of=OLD_NAME, names=("10-calico.conflist",)),
    there(10371999, of=NEW_NAME, names=("10-calico.conflist",)),
)
"""A kernel before 6.8, and a filesystem without births."""


def unordered(started: float) -> World:
    mine, theirs = NO_SERIALS
    return world().host(CNI, theirs).container("calico-node", started=started).bind(CNI, mine).switch(seen=5000.0)


def test_memory_tells_the_order_where_the_kernel_does_not() -> None:
    """Invariant 6 refuses "with no memory at all": here the ledger knew the state before the switch, in this boot."""
    assert step(unordered(4000.0).before())
    assert refusal(unordered(5001.0).before()).name == "started-after-switch"


def test_without_memory_and_without_the_kernel_nothing_is_restarted() -> None:
    one = refusal(unordered(4000.0))
    assert one.name == "started-after-switch" and "cannot be told" in one.because
    assert refusal(unordered(4000.0).before(boot="another")).name == "started-after-switch", "of another boot"
    aside = unordered(4000.0).before().history(set_aside="x", set_aside_boot=BOOT)
    assert refusal(aside).name == "started-after-switch", "the ledger was lost in this boot"
    assert step(unordered(4000.0).before().history(set_aside="x", set_aside_boot="another")), "in an earlier one"


def test_a_rollback_by_unmounting_is_healed() -> None:
    """A, B, and B unmounted again: A's mount is older than the container's, and yet the container is the leftover."""
    built = world().host(CNI, there(1, of=OLD_NAME, serial=100)).container("calico-node", started=4000.0)
    built.bind(CNI, there(2, of=NEW_NAME, serial=500)).switch(seen=5000.0)
    assert refusal(built).name == "started-after-switch"
    assert step(built.before())


# --- the breaker --------------------------------------------------------------------------------------------------


def test_one_failed_proof_stops_all_of_that_switch() -> None:
    """DESIGN §4."""
    built = stale().container("kube-multus").switch().act(outcome="not-cured").leave("kube-multus")
    one = refusal(built)
    assert one.name == "breaker" and one.alarm and one.subject is None
    one = refusal(built.switch("s2"))
    assert one.name == "waits-for-restart" and one.alarm, "never two at once"
    assert step(built.container("kube-multus").bind(CNI, NEW)), "the next switch is a new chance"


def test_the_breaker_ends_when_the_container_is_seen_fresh() -> None:
    """A person restarted it: nothing is left that did not help."""
    built = stale().container("kube-multus").switch().act(outcome="not-cured").leave("kube-multus")
    assert refusal(built).name == "breaker", "it does not run"
    assert step(built.container("kube-multus").bind(CNI, NEW)), "it runs, and is fresh"
    assert refusal(built.container("kube-multus", attempt=1).bind(CNI, OLD)).name == "breaker", "stale again"


def test_the_breaker_does_not_end_while_it_cannot_be_told_what_the_container_shows() -> None:
    """Invariant 4: unknown is not fresh."""
    built = stale().container("kube-multus").switch().act(outcome="not-cured", container_id="0" * 64)
    assert refusal(built.bind(CNI, gone("Permission denied"))).name == "breaker"


def test_the_breaker_ends_when_the_pod_is_gone() -> None:
    built = stale().container("kube-multus").switch().act(outcome="not-cured", container_id="0" * 64)
    built.leave("kube-multus")
    assert refusal(built).name == "breaker", "its sandbox is up: kubelet has not started it again"
    assert step(built.sandbox_ends("kube-multus")), "an ended sandbox may still be listed"


# --- one at a time, across switches -------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["superseded", "abandoned", ""])
def test_what_an_earlier_switch_stopped_holds_the_others_until_it_runs_again(outcome: OutcomeName) -> None:
    """Two CNI writers down at once is a node without a network to give."""
    built = stale("kube-multus").container("calico-node").switch("s2").act(switch="s1", outcome=outcome, ago=0.1)
    built.leave("calico-node")
    one = refusal(built)
    assert one.name == "waits-for-restart" and one.subject is None and not one.alarm
    assert "calico-node-x1/calico-node was stopped (act 1, 07:59:59 UTC" in one.because
    assert step(built.container("calico-node", attempt=1).bind(CNI, NEW)), "it runs again"


def test_what_runs_again_without_a_piece_of_the_hosts_tree_runs() -> None:
    """The runtime lists it, and that is enough."""
    built = stale("kube-multus").container("calico-node").switch("s2").act(switch="s1", outcome="superseded")
    built._containers.pop()
    assert step(built)


def test_a_pod_that_is_gone_is_not_waited_for() -> None:
    built = stale("kube-multus").container("calico-node").switch("s2").act(switch="s1", outcome="superseded")
    assert step(built.leave("calico-node").sandbox_ends("calico-node"))


def test_a_sandbox_that_kubelet_has_to_make_anew_is_waited_for() -> None:
    built = stale("kube-multus").container("calico-node").switch("s2")
    built.act(switch="s1", outcome="superseded", step="stop-sandbox").leave("calico-node").sandbox_ends("calico-node")
    assert refusal(built).name == "waits-for-restart"


@pytest.mark.parametrize(
    ("step_kind", "ago", "alarm"),
    [("stop-container", 149, False), ("stop-container", 151, True), ("stop-sandbox", 209, False),
     ("stop-sandbox", 211, True)],
)  # fmt: skip
def test_one_that_does_not_come_back_is_an_alarm_and_holds_on(step_kind: str, ago: float, alarm: bool) -> None:
    """ProofSec (90 s), a minute of back-off, and a minute for a new sandbox. What kubelet did not start it may not
    start a second time: a stale writer is worth more than a stopped one."""
    built = stale("kube-multus").container("calico-node").switch("s2")
    built.act(switch="s1", outcome="superseded", step=step_kind, ago=ago).leave("calico-node")
    one = refusal(built)
    assert (one.name, one.alarm) == ("waits-for-restart", alarm)


def test_acts_of_an_earlier_boot_and_those_that_ended_well_are_not_waited_for() -> None:
    for more in ({"boot": "another"}, {"outcome": "cured"}, {"outcome": "pod-gone"}):
        built = stale("kube-multus").container("calico-node").switch("s2")
        built.act(**{"switch": "s1", "outcome": "superseded", **more}).leave("calico-node")  # type: ignore[arg-type]
        assert step(built), more


# --- the node -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("built", "name"),
    [
        (stale().system(state="stopping"), "shutting-down"),
        (stale().system(problem="timed out"), "systemd-not-answering"),
        (stale().flag(always=True, age=1e6), "switch-in-progress"),
        (stale().flag(always=False, age=1), "switch-in-progress"),
        (stale().flag(always=False, age=1e6).partial(), "switch-in-progress"),
        (stale().history(problem="disk full"), "ledger-unusable"),
        (stale().runtime(problem="no answer"), "runtime-not-answering"),
        (stale().kubelet(problem="no process", refusal="kubelet-inactive"), "kubelet-inactive"),
        (stale().kubelet(pid=1, problem="503", refusal="kubelet-unhealthy"), "kubelet-unhealthy"),
        (stale().kubelet(pid=1, problem="timeout", refusal="kubelet-not-answering"), "kubelet-not-answering"),
        (stale().kubelet(pid=1, problem="401?", refusal="api-server-out-of-reach"), "api-server-out-of-reach"),
    ],
)
def test_a_refusal_for_the_whole_node(built: World, name: str) -> None:
    """DESIGN §7: nothing is stopped that kubelet could not start again now; §6: settled."""
    one = refusal(built)
    assert one.name == name and one.subject is None
    assert one.alarm == (name == "ledger-unusable"), "the others end by themselves"


@pytest.mark.parametrize("state", ["running", "degraded", "maintenance", "starting"])
def test_other_states_of_the_system_do_not_block(state: str) -> None:
    assert step(stale().system(state=state))


def test_a_stale_flag_does_not_block_where_the_mounts_are_complete() -> None:
    """DESIGN §6: a flag that says "my script is still to run" and outlives the cap."""
    assert step(stale().flag(always=False, age=601))
    assert made(stale().flag(always=False, age=50), settle_cap=40.0).steps


def test_all_that_is_wrong_with_the_node_is_said_at_once() -> None:
    built = (
        stale().system(state="stopping").flag().runtime(problem="r").kubelet(problem="k", refusal="kubelet-inactive")
    )
    assert names(made(built).refusals) == [
        "shutting-down",
        "switch-in-progress",
        "runtime-not-answering",
        "kubelet-inactive",
    ]


def test_who_asked_nobody_plans_nothing() -> None:
    assert names(made(stale().not_asked()).refusals) == [
        "systemd-not-answering",
        "runtime-not-answering",
        "kubelet-unknown",
    ]


# --- kubelet will start it again ----------------------------------------------------------------------------------

SET = {"statefulset.kubernetes.io/pod-name": "calico-node-x1", "controller-revision-hash": "x"}


@pytest.mark.parametrize(
    ("labels", "how"),
    [
        ({"controller-revision-hash": "x", "pod-template-generation": "3"}, "DaemonSet"),
        ({"pod-template-hash": "node"}, "ReplicaSet"),
        (SET, "StatefulSet"),
    ],
)
def test_controllers_labels_say_always(labels: dict[str, str], how: str) -> None:
    """DESIGN §7."""
    assert how in step(stale(labels=labels)).because


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({}, "restart-policy-unknown"),
        ({"controller-revision-hash": "x"}, "restart-policy-unknown"),
        ({"pod-template-generation": "1"}, "restart-policy-unknown"),
        ({"job-name": "x"}, "restart-policy-not-always"),
        ({"pod-template-hash": "5d4f8c"}, "restart-policy-unknown"),
        ({"statefulset.kubernetes.io/pod-name": "another-0"}, "restart-policy-unknown"),
        ({"batch.kubernetes.io/job-name": "x"}, "restart-policy-not-always"),
        ({"batch.kubernetes.io/job-name": "x", "pod-template-hash": "y"}, "restart-policy-not-always"),
    ],
)
def test_not_known_to_be_always_is_refused(labels: dict[str, str], name: str) -> None:
    """DESIGN §7: not known: refused, with that reason; a Job's labels mean no."""
    assert refusal(stale(labels=labels)).name == name


FROM_FILE = {"kubernetes.io/config.source": "file"}


@pytest.mark.parametrize(
    ("policy", "name"), [("OnFailure", "restart-policy-not-always"), ("Never", "restart-policy-not-always")]
)
def test_a_static_pods_manifest_says_no(policy: str, name: str) -> None:
    built = stale(pod="agent-node0", annotations=FROM_FILE, labels={}).static_pod("agent", policy)
    one = refusal(built)
    assert one.name == name and "agent.yaml" in one.because


def test_a_static_pods_manifest_says_always() -> None:
    built = stale(pod="agent-node0", annotations=FROM_FILE, labels={}).static_pod("agent", "Always")
    assert "manifests/agent.yaml" in step(built).because


@pytest.mark.parametrize("built", [
    stale(pod="agent-node0", annotations=FROM_FILE),
    stale(pod="agent-node0", annotations=FROM_FILE).static_pod("agent", "Always", namespace="default"),
    stale(pod="agent-node0", annotations=FROM_FILE).static_pod("agen", "Always"),
])  # fmt: skip
def test_a_static_pod_without_its_manifest(built: World) -> None:
    """Its labels are anybody's: only the manifest counts."""
    assert refusal(built).name == "restart-policy-unknown"


def test_a_node_may_have_another_name_than_the_host() -> None:
    """kubelet's --hostname-override: the longest manifest name that leads up to a dash is meant."""
    built = stale(pod="agent-x-other.example", annotations=FROM_FILE, labels={})
    built.static_pod("agent", "Never").static_pod("agent-x", "Always").static_pod("agent-xy", "Never")
    assert "manifests/agent-x.yaml" in step(built).because


def test_whose_it_is_must_be_known() -> None:
    assert refusal(stale().nameless()).name == "owner-unknown"


def test_a_container_that_the_runtime_does_not_list() -> None:
    assert refusal(stale(known=False)).name == "runtime-does-not-know-it"


def test_one_subjects_refusal_does_not_stop_another() -> None:
    """Invariant 12: the healthy rest goes on."""
    built = stale("calico-node", labels={}).container("kube-multus").bind(CNI, OLD)
    found = made(built)
    assert [one.subject.container for one in found.steps] == ["kube-multus"]
    assert names(found.refusals) == ["restart-policy-unknown"]


# --- configuration that nobody would bring back -------------------------------------------------------------------


def confs(mine: tuple[str, ...], theirs: tuple[str, ...]) -> World:
    old, new = msgspec.structs.replace(OLD, names=mine), msgspec.structs.replace(NEW, names=theirs)
    return world().host(CNI, new).container("kube-multus").bind(CNI, old)


def test_a_new_tree_without_the_configuration_is_refused() -> None:
    """Facts §3 C33, E42: an install container does not run again."""
    one = refusal(confs(("10-calico.conflist", "00-multus.conf"), ("00-multus.conf",)))
    assert one.name == "cni-configuration-missing" and one.alarm and "10-calico.conflist" in one.because


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (("00-multus.conf", "10-calico.conflist"), ("10-calico.conflist",)),
        (("00-multus.conflist",), ()),
        ((), ("10-calico.conflist",)),
        (("a.conf",), ("a.conf", "b.conf")),
    ],
)
def test_what_the_writer_makes_anew_at_each_start_is_not_lost(mine: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    assert step(confs(mine, theirs))


# --- order, grace, mode -------------------------------------------------------------------------------------------


def test_token_writers_first_in_the_platforms_order() -> None:
    """DESIGN §7: Calico before Multus, the others after them."""
    built = world().host(CNI, NEW)
    for name in ("aaa-other", "whereabouts", "kube-multus", "zzz", "calico-node"):
        built.container(name).bind(CNI, OLD)
    order = [one.subject.container for one in made(built).steps]
    assert order == ["calico-node", "kube-multus", "whereabouts", "aaa-other", "zzz"]


def test_a_stale_writer_is_stopped_at_once() -> None:
    """DESIGN §7: what it would do on exit it would do to the wrong tree."""
    one = step(stale())
    assert one.grace == 0 and "what it would do on exit it would do to the wrong tree" in one.because


def test_a_writer_below_the_directory_is_stopped_at_once_too() -> None:
    """DESIGN §7 says "is or lies below": multus.d as well as net.d."""
    path = f"{CNI}/multus.d"
    built = world().host(path, there(71, of=NEW_NAME, serial=900)).container("a")
    assert step(built.bind(path, there(70, of=OLD_NAME, serial=500))).grace == 0


def test_a_name_alone_does_not_go_first() -> None:
    """Anybody may call a container calico-node: the system's namespaces go before all others."""
    built = world().host(CNI, NEW).container("calico-node", namespace="aaa").bind(CNI, OLD)
    built.container("kube-multus").bind(CNI, OLD)
    assert [one.subject.namespace for one in made(built).steps] == ["kube-system", "aaa"]


def test_mode_observe_does_all_but_the_act() -> None:
    """DESIGN §4: the same steps, as refusals."""
    built = stale("calico-node").container("kube-multus", labels={}).bind(CNI, OLD)
    found = made(built, mode="observe")
    assert not found.steps
    assert sorted(names(found.refusals)) == ["mode-observe", "restart-policy-unknown"]
    (one,) = [each for each in found.refusals if each.name == "mode-observe"]
    assert one.subject is not None and one.subject.container == "calico-node" and "stop container" in one.because


def test_the_plan_is_a_function_of_the_snapshot() -> None:
    built = stale("b").container("a").bind(CNI, OLD).switch().act(outcome="cured", container_id="0" * 64)
    assert made(built) == made(built)
    assert msgspec.json.decode(msgspec.json.encode(made(built)), type=Plan) == made(built)

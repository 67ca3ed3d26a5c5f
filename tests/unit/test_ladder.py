# SPDX-License-Identifier: Apache-2.0
"""The ladder: container stop, then sandbox stop, each once, each only where it can help, and then a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ostreewatchd.cli.explain import explain
from ostreewatchd.judge import judge
from ostreewatchd.ledger import pausing, read
from ostreewatchd.model import Exit, Pause, Plan, Settings
from ostreewatchd.peers.cri.errors import RuntimeSilent
from ostreewatchd.plan import plan
from ostreewatchd.report import words
from tests.fakes.journald import FakeJournal
from tests.fakes.world import CrashAt, Node, Subject
from tests.unit import worlds
from tests.unit.test_exactly_once import Runs, folder  # noqa: F401
from tests.unit.test_remediation import Bench
from tests.unit.worlds import BOOT, CNI, NEW, NOW, OLD, RUNTIME, UPTIME, World, names, world

OLD_ID = "0" * 64
OTHER = RUNTIME + 1
"""Another mount namespace."""


def made(built: World) -> Plan:
    snapshot = built.snapshot()
    return plan(snapshot, judge(snapshot), Settings())


def blind(name: str = "calico-node", **more: object) -> World:
    """Its sandbox's shim has not seen the switch; the runtime has."""
    built = world().host(CNI, NEW).host(CNI, OLD, namespace=RUNTIME).daemon()
    return built.container(name, binder=RUNTIME, **more).bind(CNI, OLD)  # type: ignore[arg-type]


def kinds(found: Plan) -> list[str]:
    return [f"{step.kind} {step.subject.container}" for step in found.steps]


# --- the plan -----------------------------------------------------------------------------------------------------


def test_a_stale_shim_needs_a_new_sandbox_and_says_why_nothing_smaller() -> None:
    """Invariant 5: a rule that says why the smaller one cannot work."""
    (step,) = made(blind()).steps
    assert step.kind == "stop-sandbox" and "shim" in step.smaller and "runtime" in step.larger
    assert "init containers" in step.because and step.sandbox_id == worlds.hex_id("calico-node-x1", "sandbox")
    assert step.allowance == 60.0


def test_an_interrupted_stop_that_would_not_help_any_more_is_waited_for() -> None:
    """Invariant 5, and one at a time: it may still come, so nothing else is stopped until that is certain."""
    built = blind().switch().act()
    built.container("other").bind(CNI, OLD)
    found = made(built)
    assert not found.steps and kinds(Plan(steps=found.would)) == ["stop-container other"]
    (one,) = found.refusals
    assert one.name == "stop-may-still-come" and not one.alarm and "act 1" in one.because
    assert kinds(made(blind().switch().act(step="stop-sandbox"))) == ["stop-sandbox calico-node"]
    assert kinds(made(blind().switch().act(outcome="not-done"))) == ["stop-sandbox calico-node"]


def test_a_sandbox_stop_names_who_else_ends_with_it() -> None:
    built = blind("kube-multus", pod="m")
    built.container("multus-watcher", pod="m", binder=RUNTIME)
    (step,) = made(built).steps
    assert "multus-watcher" in step.because


def test_it_is_explained_with_what_is_smaller_and_larger_than_it() -> None:
    """Invariant 11."""
    findings = judge(blind().snapshot())
    text = "\n".join(explain(findings, made(blind())))
    assert "step     stop sandbox: " in text and "smaller  a container stop: the sandbox's shim" in text
    assert "larger   restart the runtime" in text and "grace" not in text
    (step,) = made(blind()).steps
    assert words.step(step).startswith("stop sandbox of kube-system/calico-node-x1/calico-node: ")


def test_what_is_noted_has_neither_step_nor_the_nodes_refusals() -> None:
    for flags in (0, 1):
        one = worlds.stale().host("/usr", worlds.there(2)).bind("/usr", worlds.there(1, serial=500))
        if flags:
            one.flag()
        noted = [finding for finding in judge(one.snapshot()) if not finding.owed]
        text = "\n".join(explain(noted, made(one)))
        assert noted and "step  " not in text and "refused" not in text


def test_what_no_restart_can_cure_is_explained_too() -> None:
    built = world().host(CNI, NEW).host(CNI, OLD, namespace=RUNTIME).daemon(namespace=RUNTIME)
    built.container("calico-node", binder=RUNTIME).bind(CNI, OLD)
    text = "\n".join(explain(judge(built.snapshot()), made(built)))
    assert "refused  runtime-is-stale: " in text and "with a restart of containerd.service" in text


@pytest.mark.parametrize("daemons", ["none is known", "it is stale too", "it is not known what it sees"])
def test_nothing_is_tried_that_is_not_known_to_help(daemons: str) -> None:
    """Whoever says that it is owed: the ladder looks for itself."""
    findings = judge(blind().snapshot())
    assert findings[0].owed
    built = blind().part(daemons=())
    if daemons == "it is stale too":
        built.daemon(namespace=RUNTIME)
    elif daemons == "it is not known what it sees":
        built.daemon(namespace=OTHER).host(CNI, worlds.Sight(problem="it has ended"), namespace=OTHER)
    found = plan(built.snapshot(), findings, Settings())
    assert not found.steps and names(found.refusals) == ["runtime-is-stale"] and found.refusals[0].alarm


def test_a_runtime_is_stale_where_the_bind_is_and_nowhere_else() -> None:
    """Judge and plan have one notion of it: a runtime that shows another /usr makes a new shim that shows the host's
    CNI directory."""
    built = world().host(CNI, NEW).host(CNI, OLD, namespace=RUNTIME).host(CNI, NEW, namespace=OTHER)
    built.host("/usr", worlds.there(2)).host("/usr", worlds.there(1), namespace=OTHER).daemon(namespace=OTHER)
    built.container("calico-node", binder=RUNTIME).bind(CNI, OLD)
    owed, unit = judge(built.snapshot())
    assert owed.owed and "sandbox" in owed.remedy and "no unit has to be restarted" in owed.remedy
    assert (unit.subject.unit, unit.path, unit.owed) == ("containerd.service", "/usr", False)
    assert kinds(made(built)) == ["stop-sandbox calico-node"]


def test_a_conmon_lives_no_longer_than_its_container() -> None:
    """CRI-O makes a new one in its own mount namespace: a container stop is enough."""
    built = world().host(CNI, NEW).host(CNI, OLD, namespace=RUNTIME).daemon(name="crio", unit="crio.service")
    built.container("a", binder=RUNTIME).bind(CNI, OLD)
    (finding,) = judge(built.snapshot())
    assert finding.reason.startswith("the container's conmon is in") and "shim" not in finding.reason + finding.remedy
    assert kinds(made(built)) == ["stop-container a"]


def test_the_larger_after_the_failed_proof_of_the_smaller() -> None:
    built = blind(attempt=1, started=UPTIME - 50).switch().act(container_id=OLD_ID, outcome="not-cured")
    (step,) = made(built).steps
    assert step.kind == "stop-sandbox" and "act 1" in step.smaller and "did not cure" in step.smaller


@pytest.mark.parametrize("outcome", ["cured", "pod-gone", "abandoned", "superseded"])
def test_no_larger_one_without_a_failed_proof(outcome: str) -> None:
    built = blind(attempt=1).switch().act(container_id=OLD_ID, outcome=outcome)  # type: ignore[arg-type]
    assert not made(built).steps and names(made(built).refusals) == ["already-restarted"]


def test_no_larger_one_where_it_cannot_help() -> None:
    """The shim sees what the host has, and still the new container does not: nobody knows why."""
    built = worlds.stale(attempt=1).daemon().switch().act(container_id=OLD_ID, outcome="not-cured")
    assert not made(built).steps and names(made(built).refusals) == ["breaker"]


def test_each_rung_once() -> None:
    built = blind(attempt=2, started=UPTIME - 50).switch().act(container_id=OLD_ID, outcome="not-cured")
    built.act(container_id="1" * 64, outcome="not-cured", step="stop-sandbox")
    assert not made(built).steps and names(made(built).refusals) == ["breaker"]
    built = blind(attempt=2).switch().act(container_id="1" * 64, outcome="cured", step="stop-sandbox")
    assert not made(built).steps and names(made(built).refusals) == ["already-restarted"]
    built = blind(attempt=2).switch().act(container_id="1" * 64, outcome="not-cured", step="evict-pod")
    assert not made(built).steps, "what a newer version tried was larger"


def test_the_next_switch_begins_at_the_bottom() -> None:
    built = worlds.stale(attempt=2).daemon().switch("s2")
    built.act(container_id=OLD_ID, outcome="not-cured").act(
        container_id="1" * 64, outcome="cured", step="stop-sandbox"
    )
    assert kinds(made(built)) == ["stop-container calico-node"]


def test_an_open_rung_is_taken_up_as_it_was() -> None:
    built = blind(attempt=1).switch().act(container_id=OLD_ID, outcome="not-cured").act(step="stop-sandbox")
    assert kinds(made(built)) == ["stop-sandbox calico-node"]


def test_the_breaker_lets_through_the_next_rung_and_nothing_else() -> None:
    built = blind(attempt=1, started=UPTIME - 50).switch().act(container_id=OLD_ID, outcome="not-cured")
    built.container("kube-multus", binder=RUNTIME).bind(CNI, OLD)
    found = made(built)
    assert kinds(found) == ["stop-sandbox calico-node"]
    assert [(one.name, one.subject.container) for one in found.refusals if one.subject] == [("breaker", "kube-multus")]


def test_a_second_broken_one_keeps_the_breaker_shut() -> None:
    built = blind(attempt=1, started=UPTIME - 50).switch().act(container_id=OLD_ID, outcome="not-cured")
    built.container("kube-multus", attempt=1).bind(CNI, OLD).act(container_id="2" * 64, outcome="not-cured")
    found = made(built)
    assert not found.steps and names(found.refusals) == ["breaker"] and "kube-multus" in found.refusals[0].because


def test_after_a_sandbox_stop_an_ended_sandbox_is_no_pod_that_is_gone() -> None:
    """A sandbox that will not start again: the others are not restarted while that is so."""
    built = worlds.stale("kube-multus").container("calico-node").switch()
    built.act(outcome="not-cured", step="stop-sandbox").leave("calico-node").sandbox_ends("calico-node")
    assert names(made(built).refusals) == ["breaker"]


def test_a_container_that_will_not_stop_is_named() -> None:
    built = worlds.stale().switch().act(outcome="not-cured", failure="container-will-not-stop")
    assert names(made(built).refusals) == ["breaker"]
    built = worlds.stale().switch().act(outcome="abandoned", failure="container-will-not-stop")
    assert names(made(built).refusals) == ["container-will-not-stop"]


# --- a remediation ------------------------------------------------------------------------------------------------


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with FakeJournal(tmp_path / "journal") as fake:
        one = Bench(tmp_path, fake)
        yield one
        one.close()


def steps(bench: Bench) -> list[tuple[str, str, str, str]]:
    return [(act.subject.container, act.step, act.outcome, act.failure) for act in read(bench.path).acts]


def test_a_blind_shim_is_cured_by_its_sandbox(bench: Bench) -> None:
    bench.node.subjects[0].shim = 0
    bench.node.switch()
    assert bench.run().status == Exit.NOTHING_OWED
    assert steps(bench) == [
        ("calico-node", "stop-sandbox", "cured", ""),
        ("kube-multus", "stop-container", "cured", ""),
    ]
    assert bench.node.sandbox_stops == {(1, "calico-node"): 1}


def goes_blind(bench: Bench) -> None:
    """What it is started in sees the host until its container was stopped, and the new one gets the old tree."""
    subject = bench.node.subjects[0]

    def after(_: Subject) -> str:
        if _.name == subject.name and not bench.node.sandbox_stops:
            subject.shim = 0
        return "stopped"

    bench.node.stop_effect = after


def test_both_rungs_in_one_run_and_then_the_others(bench: Bench) -> None:
    goes_blind(bench)
    bench.node.switch()
    result = bench.run()
    assert steps(bench) == [
        ("calico-node", "stop-container", "not-cured", "still-stale"),
        ("calico-node", "stop-sandbox", "cured", ""),
        ("kube-multus", "stop-container", "cured", ""),
    ]
    assert result.status == Exit.NOTHING_OWED, result
    assert bench.node.stops == {(1, "calico-node"): 2, (1, "kube-multus"): 1}


@pytest.mark.parametrize("comes", ["never", "stale"])
def test_the_last_rung_fails_and_all_stops(bench: Bench, comes: str) -> None:
    goes_blind(bench)
    bench.node.subjects[0].new_sandbox = comes  # type: ignore[assignment]
    bench.node.switch()
    started = bench.node.clock
    assert bench.run().status == Exit.NOT_CURED
    failure = "sandbox-will-not-start" if comes == "never" else "still-stale"
    assert steps(bench)[1] == ("calico-node", "stop-sandbox", "not-cured", failure) and len(steps(bench)) == 2
    assert bench.node.clock - started < 20 + 20 + 60 + 10 + 15, "each proof is bounded"
    again = bench.run()
    assert again.status == Exit.OWED and names(again.plan.refusals) == ["breaker"] and len(steps(bench)) == 2


def test_a_container_that_will_not_stop(bench: Bench) -> None:
    """The runtime's own time ran out, and it still runs: a failure with a name, and no larger one for it."""

    def silent(_: Subject) -> str:
        raise RuntimeSilent("no answer in time", "look at it")

    bench.node.stop_effect, bench.node.deaf = silent, True
    bench.node.switch()
    assert bench.run().status == Exit.NOT_CURED
    assert steps(bench) == [("calico-node", "stop-container", "not-cured", "container-will-not-stop")]
    assert bench.run().status == Exit.OWED and len(bench.node.requests) == 1


def test_a_crash_at_any_moment_of_the_ladder(folder: Path) -> None:  # noqa: F811
    """Invariant 6: each rung at most once, and in the end it is cured."""
    for moment in range(1, 90, 2):
        node = Node([Subject("calico-node", shim=0), Subject("kube-multus")])
        node.switch()
        node.hook = hook = CrashAt(moment)
        result = Runs(node, folder, moment).until_it_ends()
        assert result.status == Exit.NOTHING_OWED, (moment, hook.at, result)
        assert dict(node.stops) == {(1, "calico-node"): 1, (1, "kube-multus"): 1}, (moment, hook.at)
        assert dict(node.sandbox_stops) == {(1, "calico-node"): 1}


def test_a_pause_that_is_ordered_meanwhile_holds_the_stop_back(bench: Bench) -> None:
    """Look again right before acting: at the orders too."""
    bench.node.switch()
    directory = str(Path(bench.path).parent)
    looks = []

    def order(name: str) -> None:
        looks.append(name)
        if len(looks) == 2:
            pausing.write(directory, Pause(since=NOW, since_boottime=UPTIME, boot_id=BOOT, seconds=60.0))

    bench.node.hook = order
    result = bench.run()
    assert result.status == Exit.OWED and names(result.plan.refusals) == ["paused"] and not bench.node.requests
    pausing.remove(directory)
    assert bench.run().status == Exit.NOTHING_OWED and set(bench.node.stops.values()) == {1}

# SPDX-License-Identifier: Apache-2.0
"""What a plan shows without doing it: the steps that only the node, or Mode=observe, holds back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ostreewatchd.cli import main as ostreewatchctl
from ostreewatchd.model import Sight, Snapshot
from tests.unit.test_plan import made
from tests.unit.test_snapshot_cli import saved
from tests.unit.worlds import CNI, NEW, OLD, World, gone, names, stale, world


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda built: built.pause(), "paused"),
        (lambda built: built.flag(), "switch-in-progress"),
        (lambda built: built.kubelet(problem="inactive", refusal="kubelet-inactive"), "kubelet-inactive"),
        (lambda built: built.switch().act(outcome="not-cured", container_id="0" * 64), "breaker"),
    ],
)
def test_what_only_the_node_holds_back_is_shown(change: Callable[[World], World], name: str) -> None:
    """And is no step: a remediation acts on those."""
    built = stale().container("kube-multus")
    if name == "breaker":
        built.bind(CNI, gone("Permission denied"))
    found = made(change(built))
    assert not found.steps and names(found.refusals) == [name]
    assert [(one.kind, one.subject.container) for one in found.would] == [("stop-container", "calico-node")]


def test_nothing_is_held_back_that_is_refused_by_itself_or_done() -> None:
    assert not made(stale(labels={}).pause()).would
    assert not made(stale()).would
    assert not made(stale().pause(), per_switch=0).would


@pytest.mark.parametrize("change", [lambda built: built.pause(), lambda built: built.flag()])
def test_mode_observe_is_told_with_what_else_holds(change: Callable[[World], World]) -> None:
    """Who ends the pause need not find out that nothing is restarted all the same."""
    found = made(change(stale()), mode="observe")
    assert not found.steps and len(found.would) == 1
    (observed,) = [one for one in found.refusals if one.name == "mode-observe"]
    assert observed.subject is not None and len(found.refusals) == 2
    assert made(stale(), mode="observe").would == made(stale()).steps


def test_plan_and_explain_show_what_is_held_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = saved(tmp_path / "one.json", stale().pause().snapshot())
    assert ostreewatchctl(["plan", "--from", file]) == 1
    assert "-  held back: stop container kube-system/calico-node" in capsys.readouterr().out
    assert ostreewatchctl(["explain", "calico", "--from", file]) == 1
    assert "step     held back: stop container" in capsys.readouterr().out
    assert ostreewatchctl(["plan", "--json", "--from", file]) == 1
    plan = json.loads(capsys.readouterr().out)
    assert plan["steps"] == [] and plan["would"][0]["subject"]["container"] == "calico-node"
    assert ostreewatchctl(["explain", "--json", "calico", "--from", file]) == 1
    (explained,) = json.loads(capsys.readouterr().out)["explained"]
    assert explained["steps"] == [] and len(explained["would"]) == 1


def unknown(**bind: bool) -> Snapshot:
    return world().host(CNI, NEW).container("calico-node").bind(CNI, gone("Permission denied"), **bind).snapshot()


@pytest.mark.parametrize(
    ("snapshot", "statuses"),
    [
        (unknown(), [3, 3, 3]),
        (unknown(writable=False), [0, 0, 0]),
        (world().host("/usr", gone("?")).container("calico-node").bind("/usr", OLD).snapshot(), [0, 0, 0]),
        (world().host(CNI, gone()).container("calico-node").bind(CNI, OLD).snapshot(), [3, 3, 3]),
    ],
    ids=["unknown", "of a reader", "not of a CNI directory", "not on the host"],
)
def test_what_cannot_be_judged_is_not_all_right(snapshot: Snapshot, statuses: list[int], tmp_path: Path) -> None:
    """3 where something owed may be behind it."""
    file = saved(tmp_path / "one.json", snapshot)
    verbs = (["scan"], ["plan"], ["explain", "calico"])
    assert [ostreewatchctl([*verb, "--from", file]) for verb in verbs] == statuses


def test_a_refusal_is_not_all_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is known to be owed, and what would be is refused."""
    built = (
        world()
        .host(CNI, Sight(problem="No such file or directory", absent=True))
        .container("calico-node")
        .bind(CNI, OLD)
    )
    file = saved(tmp_path / "one.json", built.snapshot())
    assert ostreewatchctl(["plan", "--from", file]) == 1
    assert "refused (host-path-missing)" in capsys.readouterr().out
    assert ostreewatchctl(["explain", "calico", "--from", file]) == 1

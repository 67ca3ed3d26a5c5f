# SPDX-License-Identifier: Apache-2.0
"""Each reported fault, judged from its saved Snapshot: findings, steps and refusals are those of its scenario.
Where a world is built anew, and the look recorded: tests/scenarios."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ostreewatchd.cli.world import exit_status
from ostreewatchd.judge import judge
from ostreewatchd.plan import plan
from ostreewatchd.replay.older import upgraded
from tests.scenarios.kit.catalogue import FOLDER, names, scenario
from tests.scenarios.kit.expect import Expected, differences
from tests.scenarios.kit.page import PAGE, page, refusals_of_the_readme
from tests.scenarios.kit.recorded import load, save


@pytest.mark.parametrize("name", names())
def test_its_saved_snapshot_is_judged_as_expected(name: str) -> None:
    one = scenario(name)
    assert one.saved.exists(), f"as root: python -m tests.scenarios record {name}"
    snapshot = load(one.saved)
    findings = judge(snapshot)
    wrong = differences(one.expect, findings, plan(snapshot, findings, one.settings), snapshot.problems)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", names())
def test_its_exit_status(name: str) -> None:
    """Nothing that cannot be judged, and nothing that is refused, is all right."""
    one = scenario(name)
    snapshot = load(one.saved)
    findings = judge(snapshot)
    assert exit_status(snapshot, findings, plan(snapshot, findings, one.settings)) == one.expect.exit_status


@pytest.mark.parametrize("name", names())
def test_it_says_what_it_is(name: str, tmp_path: Path) -> None:
    """For people: what went wrong, who reported it, and why a Snapshot is written by hand, if it is."""
    one = scenario(name)
    assert one.tells and one.reported and all(one.reported)
    assert (one.build is None) == bool(one.by_hand)
    save(load(one.saved), tmp_path / "again")
    again, saved = (json.loads(path.read_bytes()) for path in (tmp_path / "again", one.saved))
    assert _is_within(upgraded(saved), again), "changed by hand?"


def _is_within(old: object, new: object) -> bool:
    """Equal, but for fields that the model has got since: old Snapshots stay readable."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and _is_within(value, new[key]) for key, value in old.items())
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(_is_within, old, new))
    return old == new


def test_no_snapshot_without_a_scenario() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(names())


def test_the_page_of_rules_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m tests.scenarios rules"


def test_one_more_or_one_less_is_told() -> None:
    """What the comparison itself is worth."""
    one = scenario("calico_writes_into_the_old_tree")
    snapshot = load(one.saved)
    findings = judge(snapshot)
    made = plan(snapshot, findings, one.settings)
    assert not differences(one.expect, findings, made)
    assert differences(one.expect, findings[:1], made)
    assert differences(one.expect._replace(findings=one.expect.findings[:1]), findings, made)
    assert differences(one.expect._replace(steps=one.expect.steps[::-1]), findings, made)
    other = (("breaker", "", ""),)
    assert differences(one.expect._replace(refusals=other), findings, made)
    assert differences(one.expect._replace(problems=("x",)), findings, made)
    reworded = tuple((*row[:4], "another reason") for row in one.expect.findings)
    assert differences(Expected(findings=reworded, steps=one.expect.steps), findings, made)


def test_the_page_has_each_refusal_of_the_readme() -> None:
    """Also those that come up during a run, so that no saved look has them."""
    means = refusals_of_the_readme()
    assert {"stop-failed", "container-will-not-stop", "kubelet-unhealthy", "api-server-out-of-reach"} <= means.keys()
    assert not [name for name in means if f"\n- `{name}`" not in page()]

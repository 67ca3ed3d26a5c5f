# SPDX-License-Identifier: Apache-2.0
"""Each reported fault, its world built anew in real namespaces: what root finds, what the watcher finds in its
confinement, and what is found in the look that was just saved are one and the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ostreewatchd.judge import judge
from ostreewatchd.model import Snapshot
from ostreewatchd.plan import plan
from tests.host.namespace import needs_root
from tests.scenarios.kit.builder import Builder, Failed
from tests.scenarios.kit.catalogue import Scenario, names, scenario
from tests.scenarios.kit.expect import differences
from tests.scenarios.kit.recorded import load, normal, save

pytestmark = needs_root

BUILT = [name for name in names() if scenario(name).build is not None]


@pytest.fixture(scope="module")
def builder() -> Iterator[Builder]:
    with Builder() as one:
        yield one


def wrong(one: Scenario, look: Snapshot) -> list[str]:
    snapshot = one.stand_ins(look)
    findings = judge(snapshot)
    return differences(one.expect, findings, plan(snapshot, findings, one.settings), snapshot.problems)


@pytest.mark.parametrize("name", BUILT)
def test_root_watcher_and_the_saved_look_agree(name: str, builder: Builder, tmp_path: Path) -> None:
    one = scenario(name)
    try:
        looks = builder.looks(name)
    except Failed as error:
        pytest.fail(str(error), pytrace=False)
    save(normal(looks.root), tmp_path / "saved.json")
    judged = {"root": looks.root, "watcher": looks.watcher, "saved": load(tmp_path / "saved.json")}
    assert {who: wrong(one, look) for who, look in judged.items()} == dict.fromkeys(judged, [])

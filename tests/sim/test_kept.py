# SPDX-License-Identifier: Apache-2.0
"""The kept histories: each still shows the planted bug for which it was kept. One that no longer does, because the
product has changed, is found anew with `python -m tests.sim planted --save tests/sim/histories NAME`."""

from __future__ import annotations

import pytest

from tests.sim.__main__ import KEPT
from tests.sim.events import load
from tests.sim.mutants import NAMES, planted
from tests.sim.replay import folder
from tests.sim.shrink import broken, shrink


@pytest.mark.parametrize("name", NAMES)
def test_it_still_finds_its_bug(name: str) -> None:
    history = load(KEPT / f"{name.replace(' ', '-')}.json")
    with folder() as place, planted(name) as tune:
        assert broken(history, place, tune) is not None


def test_a_failing_history_shrinks() -> None:
    """What has nothing to do with the bug is left out, and what is left still fails."""
    history = load(KEPT / "no-intent.json")
    assert len(history.events) == 1
    with folder() as place, planted("no intent") as tune:
        assert shrink(history, place, tune).events == history.events


@pytest.mark.parametrize("name", sorted(path.stem for path in KEPT.glob("found-*.json")))
def test_what_was_found_is_mended(name: str) -> None:
    """Each of these broke something once."""
    with folder() as place:
        assert broken(load(KEPT / f"{name}.json"), place) is None

# SPDX-License-Identifier: Apache-2.0
"""Histories that once showed something, on the simulated node: all of them hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim.events import load
from tests.sim.replay import folder, replay
from tests.unit.sources import ROOT

KEPT = sorted((ROOT / "tests" / "sim" / "histories").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_a_kept_history(path: Path) -> None:
    history = load(path)
    assert history.why
    with folder() as place:
        replay(history, place)

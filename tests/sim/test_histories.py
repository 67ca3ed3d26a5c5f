# SPDX-License-Identifier: Apache-2.0
"""Invariants 4 to 8 and 12 in random histories, and that the simulation would notice: each planted bug is found."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec
import pytest

from tests.sim.__main__ import Found
from tests.sim.jobs import JOBS, lines
from tests.sim.mutants import NAMES

_HISTORIES = int(os.environ.get("OSTREEWATCHD_SIM_HISTORIES", "10000"))
_FIRST = int(os.environ.get("OSTREEWATCHD_SIM_FIRST", "0"))


def at_once(commands: Sequence[Sequence[str]]) -> list[Found]:
    return [msgspec.json.decode(line, type=Found) for line in lines(commands)]


def test_random_histories() -> None:
    """DESIGN's invariants after each step; at the end all is cured or refused with a name that is true."""
    share = -(-_HISTORIES // JOBS)
    found = at_once([["histories", str(_FIRST + job * share), str(share)] for job in range(JOBS)])
    assert not found, "\n".join(
        f"seed {one.seed}: {one.what}: {msgspec.json.encode(one.shrunk).decode()}" for one in found[:5]
    )


@pytest.fixture(scope="module")
def planted() -> dict[str, Found]:
    found = at_once([["planted", *NAMES[job::JOBS]] for job in range(JOBS)])
    return {one.planted: one for one in found}


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bug_is_found(name: str, planted: dict[str, Found]) -> None:
    """Within 1,000 histories."""
    assert name in planted, f"{name}: 1,000 histories and nothing broke"
    assert planted[name].seed < 1000


def test_there_are_enough_planted_bugs() -> None:
    assert len(NAMES) >= 15

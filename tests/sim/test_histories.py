# SPDX-License-Identifier: Apache-2.0
"""Invariants 4 to 8 and 12 in random histories, and that the simulation would notice: each planted bug is found."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import msgspec
import pytest

from tests.sim.__main__ import Found
from tests.sim.mutants import NAMES
from tests.unit.sources import ROOT

_JOBS = min(4, os.cpu_count() or 1)
_HISTORIES = int(os.environ.get("OSTREEWATCHD_SIM_HISTORIES", "10000"))
_FIRST = int(os.environ.get("OSTREEWATCHD_SIM_FIRST", "0"))


def at_once(commands: Sequence[Sequence[str]]) -> list[Found]:
    """Run `python -m tests.sim` with each of these arguments, all at the same time."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.sim", *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        for command in commands
    ]
    found = []
    try:
        for one in running:
            out, errors = one.communicate(timeout=3600 * 12)
            assert one.returncode in (0, 1) and "Traceback" not in errors, errors[-4000:]
            found += [msgspec.json.decode(line, type=Found) for line in out.splitlines()]
    finally:
        for one in running:
            one.kill()
            one.wait()
    return found


def test_random_histories() -> None:
    """DESIGN's invariants after each step; at the end all is cured or refused with a name that is true."""
    share = -(-_HISTORIES // _JOBS)
    found = at_once([["histories", str(_FIRST + job * share), str(share)] for job in range(_JOBS)])
    assert not found, "\n".join(
        f"seed {one.seed}: {one.what}: {msgspec.json.encode(one.shrunk).decode()}" for one in found[:5]
    )


@pytest.fixture(scope="module")
def planted() -> dict[str, Found]:
    found = at_once([["planted", *NAMES[job::_JOBS]] for job in range(_JOBS)])
    return {one.planted: one for one in found}


@pytest.mark.parametrize("name", NAMES)
def test_a_planted_bug_is_found(name: str, planted: dict[str, Found]) -> None:
    """Within 1,000 histories."""
    assert name in planted, f"{name}: 1,000 histories and nothing broke"
    assert planted[name].seed < 1000


def test_there_are_enough_planted_bugs() -> None:
    assert len(NAMES) >= 15

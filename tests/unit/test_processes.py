# SPDX-License-Identifier: Apache-2.0
"""Which of a container's processes is its first: told by parents where clocks are too coarse."""

from __future__ import annotations

from typing import Optional

import pytest

from ostreewatchd.observe import processes
from ostreewatchd.observe.processes import _first, _Member
from ostreewatchd.parse.stat import ProcessStat
from ostreewatchd.peers import proc

SHIM = 50


@pytest.mark.parametrize(
    ("living", "first"),
    [
        # (parent, start in ticks) by pid. A child with a lower pid (they begin anew), in the same tick
        ({3000: (SHIM, 700), 101: (3000, 700)}, 3000),
        # what was put into it by exec has the same parent and is younger
        ({3000: (SHIM, 700), 101: (SHIM, 900)}, 3000),
        # an init that ended: its child is the shim's now, and has a child that counts as older
        ({200: (SHIM, 800), 150: (200, 800)}, 200),
        # all have ended but one, or all
        ({3000: None, 101: (3000, 700)}, 101),
        ({3000: None, 101: None}, None),
    ],
)
def test_the_first_process(
    monkeypatch: pytest.MonkeyPatch, living: dict[int, Optional[tuple[int, int]]], first: Optional[int]
) -> None:
    def stat(pid: int) -> Optional[ProcessStat]:
        known = living[pid]
        return None if known is None else ProcessStat("x", *known)

    assert processes.proc is proc
    monkeypatch.setattr(proc, "stat", stat)
    found, _ = _first([_Member(pid, 4026532000) for pid in living])
    assert (found.pid if found else None) == first

# SPDX-License-Identifier: Apache-2.0
"""From a Snapshot with evidence on the runtime to the plan: the table, row by row."""

from __future__ import annotations

import msgspec
import pytest

from ostreewatchd.judge import judge
from ostreewatchd.model import Refusal, Settings, Step
from ostreewatchd.plan import plan
from ostreewatchd.replay import form
from tests.unit.runtimes import KATA, RUNC, WANTED, crio
from tests.unit.runtimetable import ROWS, Row


def said(one: Step | Refusal) -> str:
    name = one.kind if isinstance(one, Step) else one.name
    return f"{name} {one.subject}" if one.subject is not None else name


@pytest.mark.parametrize("row", ROWS, ids=[row.tells.replace(" ", "-") for row in ROWS])
def test_a_row_of_the_table(row: Row) -> None:
    snapshot = row.look()
    findings = judge(snapshot)
    made = plan(snapshot, findings, row.settings)
    assert sorted(said(one) for one in (*made.steps, *made.refusals)) == sorted(row.plan)
    assert any(one.verdict == "unknown" for one in findings) == row.unknown
    assert {one.subject.kind for one in findings} <= {"unit", "host" if row.runtime.types_missing else "unit"}
    assert all(one.because and one.smaller for one in made.steps), "why, and why nothing smaller"
    assert plan(snapshot, findings, row.settings) == made, "the same again"


def test_a_torn_look_restarts_nothing() -> None:
    torn = msgspec.structs.replace(Row("", crio(**WANTED)).look(), torn="the host was switched")
    assert [one.verdict for one in judge(torn)] == ["unknown"]
    assert plan(torn, judge(torn), Settings(lock="none")).steps == ()


def test_a_saved_snapshot_is_judged_the_same() -> None:
    snapshot = Row("", crio(handlers=(RUNC, KATA))).look()
    assert judge(form.load(form.encode(snapshot))) == judge(snapshot)

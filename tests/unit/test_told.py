# SPDX-License-Identifier: Apache-2.0
"""A ledger that cannot be used is told once, and not with each of the runs that follow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostreewatchd.model import Settings
from ostreewatchd.remediation import program, told
from ostreewatchd.report.journal import Journal
from tests.fakes.journald import FakeJournal
from tests.fakes.world import Node, Subject


def test_new_once_and_again_after_an_hour(tmp_path: Path) -> None:
    path = str(tmp_path / "told.json")
    assert told.news(["a", "b"], 100.0, path) == ("a", "b")
    assert told.news(["b", "c"], 3699.0, path) == ("c",)
    assert told.news(["b"], 3700.0, path) == ("b",)
    assert told.news([], 3701.0, path) == ()
    assert told.news(["b"], 3702.0, path) == ("b",), "it had ended"
    assert told.news(["b"], 10.0, path) == ("b",), "another boot"


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"a": "x"}', b""])
def test_what_cannot_be_read_is_told_again(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "told.json"
    path.write_bytes(content)
    assert told.news(["a"], 5.0, str(path)) == ("a",)
    assert told.news(["a"], 6.0, str(tmp_path / "nowhere" / "told.json")) == ("a",)


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeJournal]:
    with FakeJournal(tmp_path / "journal") as one:
        yield one


@pytest.mark.parametrize("owed", [True, False])
def test_a_ledger_that_cannot_be_used(
    owed: bool, tmp_path: Path, fake: FakeJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Invariant 6: no ledger, no act. One line for the failure, one for the refusal, however many runs."""
    monkeypatch.setattr(program, "this_boot", lambda: "boot")
    (tmp_path / "ledger.db").mkdir()
    node = Node([Subject("calico-node")])
    if owed:
        node.switch()
    journal = Journal("test", fake.path)
    kinds: list[str] = []
    for _ in range(3):
        result = program.run(
            journal, Settings(), str(tmp_path / "ledger.db"), told_path=str(tmp_path / "told.json"), world=node
        )
        kinds += [entry["OSTREEWATCHD_KIND"].decode() for entry in fake.entries()]
        assert [one.name for one in result.plan.refusals] == ["ledger-unusable"] * owed
    journal.close()
    assert not node.requests and kinds.count("failed") == 1
    assert kinds.count("alarm") == (1 if owed else 0), kinds
    os.rmdir(tmp_path / "ledger.db")
    result = program.run(
        (journal := Journal("test", fake.path)), Settings(proof=20.0), str(tmp_path / "ledger.db"),
        told_path=str(tmp_path / "told.json"), world=node,
    )  # fmt: skip
    journal.close()
    assert result.status == 0 and len(node.requests) == owed, "it ended, and what was owed is done"

# SPDX-License-Identifier: Apache-2.0
"""ostreewatchctl gate on saved evidence: exit statuses, what people and programs read, and files that are none."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from ostreewatchd.cli import gate, main
from ostreewatchd.judge.recovery import judge
from ostreewatchd.model import Recovery
from tests.unit.recoveries import series, spoilt

Output = pytest.CaptureFixture[str]
CASES = {
    "recovered": (series(), 0),
    "not-yet": (spoilt(series(), "kubelet", active="inactive", sub="dead"), 1),
    "cannot-know": (spoilt(series(), "", failed_monitors=None), 3),
}


def saved(folder: Path, recovery: Recovery) -> str:
    (folder / "gate.json").write_bytes(msgspec.json.encode({"verdict": "of no interest", "evidence": recovery}))
    return str(folder / "gate.json")


@pytest.mark.parametrize("verdict", CASES)
def test_exit_status_and_json(tmp_path: Path, capsys: Output, verdict: str) -> None:
    recovery, status = CASES[verdict]
    assert main(["gate", "--json", "--from", saved(tmp_path, recovery)]) == status
    text = capsys.readouterr().out
    answer = json.loads(text)
    assert (answer["verdict"], answer["node"], len(answer["rows"])) == (verdict, "node1", 16)
    assert bool(answer["cause"]) is (verdict != "recovered")
    # What it prints is judged the same elsewhere.
    (tmp_path / "again.json").write_text(text)
    assert main(["gate", "--json", "--from", str(tmp_path / "again.json")]) == status
    assert capsys.readouterr().out == text


def test_what_people_read(tmp_path: Path, capsys: Output) -> None:
    samples = [replace(one, cri=replace(one.cri, sandboxes=(), containers=())) for one in series().samples]
    assert main(["gate", "--from", saved(tmp_path, series(*samples))]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("node1: not recovered, 32 s after the restart: pods-known: the runtime knows none of")
    assert "  ok      runtime-unit    crio.service is active, since 32 s" in lines
    assert "  bad     pods-known      the runtime knows none of the 30 pods that kubelet has" in lines
    assert lines[-1].startswith("  ALARM: the runtime says that it is ready and knows none of its pods")


def test_rows_live_on_a_terminal(capsys: Output) -> None:
    table = gate._Table(live=True)
    for count in (1, 2):
        seen = series(*series().samples[:count])
        table.show(seen, judge(seen))
    first, second = capsys.readouterr().out.split("\x1b[17F\x1b[J")
    assert first.count("\n") == second.count("\n") == 17 and "all good, for 2 of 10 s" in second


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no JSON"),
        (b"[]", "not what `ostreewatchctl gate --json` prints"),
        (b'{"format": 9, "since": 1, "samples": []}', "format 9"),
        (b'{"format": 1, "since": "x", "boot_id": "b", "samples": []}', "damaged"),
        (b'{"format": 1, "since": 1e300, "boot_id": "b", "samples": []}', "damaged"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, capsys: Output, content: bytes, says: str) -> None:
    (tmp_path / "file").write_bytes(content)
    assert main(["gate", "--from", str(tmp_path / "file")]) == 3
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["--since", "soon"], ["--since", "2026-13-01T00:00:00Z"], ["--since", "@99999999999"], ["--since", "@nan"],
     ["--timeout", "2h"], ["--from", ""], ["--before", ""]],
)  # fmt: skip
def test_a_mistake_is_told(words: list[str], capsys: Output) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["gate", *words])
    assert ended.value.code == 2 and capsys.readouterr().err.startswith("usage: ostreewatchctl gate")


def test_since() -> None:
    assert gate._moment("2020-11-30T00:00:01Z") == gate._moment("@1606694401") == 1606694401.0
    assert gate._moment("2020-11-30T01:00:01+01:00") == gate._moment("2020-11-30T00:00:01Z")

# SPDX-License-Identifier: Apache-2.0
"""ostreewatchctl on the wrong words, on a host without a ledger, and from a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pystemd.dbusexc
import pytest

from ostreewatchd import ledger
from ostreewatchd.cli import main
from ostreewatchd.model import Exit, all_exits
from ostreewatchd.peers import systemd
from ostreewatchd.replay import form
from tests.unit.sources import ROOT
from tests.unit.worlds import stale

Output = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("words", "usage", "says"),
    [
        (["scan", "--from", ""], "scan", "must name a file"),
        (["plan", "--from="], "plan", "must name a file"),
        (["explain", "x", "--from", ""], "explain", "must name a file"),
        (["snapshot", "save", "--output", ""], "snapshot save", "must name a file"),
        (["snapshot", "diff", "a", ""], "snapshot diff", "must name a file"),
        (["remediate", "--wait", "-5"], "remediate", "must be from 0 to 3600 seconds"),
        (["remediate", "--wait", "nan"], "remediate", "must be from 0 to 3600 seconds"),
        (["remediate", "--wait", "soon"], "remediate", "soon"),
        (["scan", "--form", "x"], "scan", "unrecognized arguments: --form x"),
        (["snapshot", "save", "--anonymise"], "snapshot save", "unrecognized arguments: --anonymise"),
        (["history", "x"], "history", "unrecognized arguments: x"),
    ],
)
def test_a_mistake_is_told_with_the_verbs_usage(words: list[str], usage: str, says: str, capsys: Output) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    said = capsys.readouterr()
    assert ended.value.code == 2 and not said.out
    assert said.err.startswith(f"usage: ostreewatchctl {usage} [-h]") and says in said.err, said.err


@pytest.mark.parametrize("words", [["--help"], ["scan", "--help"], ["snapshot", "--help"]])
def test_help_and_readme_tell_the_exit_statuses(words: list[str], capsys: Output) -> None:
    assert [int(one) for one in Exit] == [0, 1, 2, 3, 4]
    with pytest.raises(SystemExit):
        main(words)
    texts = (capsys.readouterr().out, (ROOT / "README.md").read_text(encoding="utf-8"))
    for text in (" ".join(text.split()).lower() for text in texts):
        assert all_exits().lower() in text


def test_a_host_without_a_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    missing = str(tmp_path / "ledger.db")
    monkeypatch.setattr(ledger, "PATH", missing)
    monkeypatch.setattr(ledger.read, "__defaults__", (missing,))
    assert main(["history"]) == 0
    assert capsys.readouterr().out == f"nothing was ever done: there is no ledger at {missing}\n"


def test_a_pipe_is_not_waited_for(tmp_path: Path, capsys: Output) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert main(["scan", "--from", str(tmp_path / "pipe")]) == 3
    assert "it is a pipe" in capsys.readouterr().err


def test_a_checkout_judges_a_saved_snapshot(tmp_path: Path) -> None:
    """With no more than docs/snapshot.md says must be installed."""
    (tmp_path / "a.json").write_bytes(form.dump(stale().snapshot()))
    done = subprocess.run(
        [sys.executable, "-m", "ostreewatchd.cli", "scan", "--from", str(tmp_path / "a.json")],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1 and "1 owed" in done.stdout, done.stderr
    assert "python3 -m ostreewatchd.cli scan --from" in (ROOT / "docs/snapshot.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", [-2, -13])
def test_an_error_of_systemds_has_no_jokes(code: int) -> None:
    """pystemd's own text of a base error is one."""
    said = systemd._text(pystemd.dbusexc.DBusBaseError(code, err_message="Could not open a bus to DBus"))
    assert said == f"Could not open a bus to DBus: {os.strerror(-code)}"


def test_the_lab_tells_where_a_command_goes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.lab", "sh", "--help"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and "[NAME] [-- COMMAND ...]" in done.stdout, done.stdout

# SPDX-License-Identifier: Apache-2.0
"""`scan|plan|explain --from FILE` and `snapshot`: anywhere, by anybody, with an answer also where there is none."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostreewatchd.cli import main as ostreewatchctl
from ostreewatchd.cli import newfile, world
from ostreewatchd.judge import judge
from ostreewatchd.model import Problem, Settings, Snapshot
from ostreewatchd.plan import plan
from ostreewatchd.replay import form
from ostreewatchd.report import words
from ostreewatchd.report.jsontext import json_text
from tests.unit.sources import ROOT
from tests.unit.worlds import stale, there
from tests.unit.worlds import world as healthy

Output = pytest.CaptureFixture[str]


def saved(path: Path, snapshot: Snapshot, config: Settings = Settings()) -> str:  # noqa: B008 (frozen)
    path.write_bytes(form.dump(msgspec.structs.replace(snapshot, settings=config)))
    return str(path)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return saved(tmp_path / "one.json", stale().snapshot())


def test_scan(file: str, capsys: Output) -> None:
    snapshot = stale().snapshot()
    assert ostreewatchctl(["scan", "--from", file]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out == [words.summary(snapshot, judge(snapshot)), f"  {words.finding(judge(snapshot)[0])}"]
    assert ostreewatchctl(["scan", "--json", "--from", file]) == 1
    assert json.loads(capsys.readouterr().out)["findings"][0]["owed"] is True


def test_plan_takes_the_nodes_settings(tmp_path: Path, capsys: Output) -> None:
    observing = Settings(mode="observe")
    snapshot = stale().snapshot()
    for config in (Settings(), observing):
        name = saved(tmp_path / "a.json", snapshot, config)
        assert ostreewatchctl(["plan", "--json", "--from", name]) == 1
        made = json.loads(json_text(plan(snapshot, judge(snapshot), config)))
        got = capsys.readouterr()
        assert json.loads(got.out) == made and not got.err
    assert ostreewatchctl(["plan", "--from", name]) == 1
    assert "mode-observe" in capsys.readouterr().out


def test_plan_without_what_it_needs_says_so(tmp_path: Path, capsys: Output) -> None:
    """Saved by a program that asked nobody, and without settings."""
    snapshot = msgspec.structs.replace(stale().snapshot(), system=None, runtime=None, kubelet=None)
    path = tmp_path / "a.json"
    path.write_bytes(form.dump(snapshot))
    assert ostreewatchctl(["plan", "--from", str(path)]) == 1
    got = capsys.readouterr()
    assert "no settings: the defaults" in got.err and "were not all asked" in got.err
    assert got.out.count("it was not asked") == 3
    assert ostreewatchctl(["scan", "--from", str(path)]) == 1
    assert "were not all asked" not in capsys.readouterr().err, "a scan asks nobody anyway"


def test_explain(file: str, capsys: Output) -> None:
    assert ostreewatchctl(["explain", "calico-node", "--from", file]) == 1
    assert "step     stop container" in capsys.readouterr().out
    assert ostreewatchctl(["explain", "calico", "--json", "--from", file]) == 1
    (one,) = json.loads(capsys.readouterr().out)["explained"]
    assert one["finding"]["rule"] == "stale-mount" and one["steps"][0]["kind"] == "stop-container"
    assert one["refusals"] == [] and "container's bind" in one["proves"] and "23d2727" in one["source"]
    assert ostreewatchctl(["explain", "nobody", "--from", file]) == 2
    assert "kube-system/calico-node-x1/calico-node" in capsys.readouterr().err


def test_explain_host(tmp_path: Path, capsys: Output) -> None:
    """Always, with status 0: what is booted and live, by which mounts, and what is wrong, if anything is."""
    built = healthy().live(usr_mount="1 2 3 /usr", etc_mount="4 5 6 /etc")
    name = saved(tmp_path / "a.json", built.snapshot())
    assert ostreewatchctl(["explain", "host", "--from", name]) == 0
    out = capsys.readouterr().out
    assert "booted    debian-aaaaaaaaaa" in out and "live /etc debian-bbbbbbbbbb" in out
    assert "(other-deployment)" in out and "1 2 3 /usr" in out and "4 5 6 /etc" in out
    assert "do not undeploy or prune it before the next reboot" in out and out.endswith("nothing wrong\n")
    wrong = saved(tmp_path / "b.json", healthy().partial().snapshot())
    assert ostreewatchctl(["explain", "host", "--from", wrong]) == 0
    assert "half-way" in (out := capsys.readouterr().out) and "nothing wrong" not in out
    assert ostreewatchctl(["explain", "host", "--json", "--from", wrong]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["host"]["live_is_not_booted"]
    assert [one["finding"]["rule"] for one in told["explained"]] == ["split-tree"]


def test_explain_of_what_is_fresh(tmp_path: Path, capsys: Output) -> None:
    name = saved(tmp_path / "a.json", healthy().container("fine").snapshot())
    assert ostreewatchctl(["explain", "fine", "--json", "--from", name]) == 0
    assert json.loads(capsys.readouterr().out) == {"explained": []}
    assert ostreewatchctl(["scan", "--from", name]) == ostreewatchctl(["plan", "--from", name]) == 0


def test_a_refusal_is_explained_to_machines_too(tmp_path: Path, capsys: Output) -> None:
    name = saved(tmp_path / "a.json", stale().flag().snapshot())
    assert ostreewatchctl(["explain", "calico", "--json", "--from", name]) == 1
    (one,) = json.loads(capsys.readouterr().out)["explained"]
    assert [it["name"] for it in one["refusals"]] == ["switch-in-progress"] and one["steps"] == []


def test_what_was_not_read_there_is_not_known_here(tmp_path: Path) -> None:
    hidden = healthy().part(problems=(Problem(where="container x", what="Permission denied"),)).snapshot()
    assert ostreewatchctl(["scan", "--from", saved(tmp_path / "a.json", hidden)]) == 3


def test_a_refusal_explains_only_what_is_owed(tmp_path: Path, capsys: Output) -> None:
    built = stale().bind("/usr", there(1)).host("/usr", there(2)).flag()
    name = saved(tmp_path / "a.json", built.snapshot())
    assert ostreewatchctl(["explain", "calico", "--json", "--from", name]) == 1
    explained = json.loads(capsys.readouterr().out)["explained"]
    assert [(one["finding"]["owed"], len(one["refusals"])) for one in explained] == [(True, 1), (False, 0)]


class Stdin(io.TextIOWrapper):
    """Standard input with these bytes."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))


def test_from_standard_input(file: str, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(Path(file).read_bytes()))
    assert ostreewatchctl(["scan", "--from", "-"]) == 1
    assert "owed" in capsys.readouterr().out
    assert ostreewatchctl(["snapshot", "diff", "-", "-"]) == 2


@pytest.mark.parametrize("verb", [["scan"], ["plan"], ["explain", "x"], ["snapshot", "diff", "/dev/null"]])
def test_bad_files_have_clear_errors(verb: list[str], tmp_path: Path, capsys: Output) -> None:
    bad = tmp_path / "bad\n\x1b[31m"
    tail = [] if verb[0] == "snapshot" else ["--from"]
    for make, says in (
        (lambda: None, "No such file"),
        (lambda: bad.write_bytes(b"\x00"), "no JSON"),
        (lambda: (bad.unlink(), bad.mkdir()), "irectory"),
    ):
        make()
        assert ostreewatchctl([*verb, *tail, str(bad)]) == 3
        got = capsys.readouterr()
        if verb[0] != "snapshot":
            assert says in got.err
        assert got.err.startswith("ostreewatchctl: ") and got.err.count("\n") == 1 and "\x1b" not in got.err
        assert not got.out


def test_no_more_is_read_than_a_snapshot_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def read(self, size: int = -1) -> bytes:
            asked.append(size)
            return b" " * size

    class Input:
        buffer = Endless()

    monkeypatch.setattr(sys, "stdin", Input())
    assert ostreewatchctl(["scan", "--from", "-"]) == 3
    assert asked == [form.MAX_BYTES + 1]


def test_a_file_without_end_is_not_read_to_its_end(capsys: Output) -> None:
    assert ostreewatchctl(["scan", "--from", "/dev/zero"]) == 3
    assert "no snapshot has" in capsys.readouterr().err


def test_a_saved_snapshot_needs_nothing_of_this_host(file: str) -> None:
    """Another user, another system: what looks, what asks and what is heavy is not even imported."""
    code = (
        "import io, os, sys\n"
        "for name in ('observe', 'peers', 'remediation', 'watcher', 'act'):\n"
        "    sys.modules['ostreewatchd.' + name] = None\n"
        "for name in ('grpc', 'google.protobuf', 'pystemd', 'yaml', 'asyncio', 'http.client', 'ctypes'):\n"
        "    sys.modules[name] = None\n"
        "from ostreewatchd.cli import main\n"
        "data = open(0, 'rb', closefd=False).read()\n"
        "for user in (os.getuid(), 65534):\n"  # First as who can read the standard library.
        "    user == os.getuid() or os.getuid() or os.setuid(user)\n"
        "    for verb in (['scan'], ['plan'], ['explain', 'calico-node']):\n"
        "        sys.stdin = io.TextIOWrapper(io.BytesIO(data))\n"
        "        assert main([*verb, '--from', '-']) == 1\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=ROOT, input=Path(file).read_bytes(), capture_output=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0 and b"owed" in done.stdout, done.stderr.decode()


# --- save ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Snapshot:
    """A look at this host, for the part that writes. The real one is in tests/host."""
    snapshot = stale().snapshot()

    def see_host(*, deep: bool = False) -> Any:
        assert deep
        return Settings(mode="observe"), snapshot, judge(snapshot)

    monkeypatch.setattr("ostreewatchd.cli.snapshot.see_host", see_host)
    return snapshot


def test_save_makes_a_private_file_here(
    live: Snapshot, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mask = os.umask(0)
    try:
        assert ostreewatchctl(["snapshot", "save"]) == 0
    finally:
        os.umask(mask)
    (path,) = tmp_path.iterdir()
    assert capsys.readouterr().out == f"{path.name}\n" and path.name == "ostreewatchd-node0-20270115T080000Z.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert form.load(path.read_bytes()) == msgspec.structs.replace(live, settings=Settings(mode="observe"))


def test_save_anonymized(live: Snapshot, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert ostreewatchctl(["snapshot", "save", "--anonymize"]) == 0
    (path,) = tmp_path.iterdir()
    assert "node0" not in path.name + path.read_text() and form.load(path.read_bytes()).anonymized
    assert live.node.name == "node0"


def test_save_to_standard_output(live: Snapshot, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert ostreewatchctl(["snapshot", "save", "--output", "-"]) == 0
    got = capsysbinary.readouterr()
    assert form.load(got.out).node == live.node and not got.err


def test_save_follows_no_link(live: Snapshot, tmp_path: Path, capsys: Output) -> None:
    del live
    precious = tmp_path / "precious"
    precious.write_text("x")
    for name, target in (("link", precious), ("dangling", tmp_path / "not there")):
        link = tmp_path / name
        link.symlink_to(target)
        assert ostreewatchctl(["snapshot", "save", "--output", str(link)]) == 3
        assert "symbolic link" in capsys.readouterr().err and link.is_symlink()
    assert precious.read_text() == "x" and not (tmp_path / "not there").exists()
    for bad in (tmp_path, tmp_path / "no" / "where", "/dev/null", f"{tmp_path}/"):
        assert ostreewatchctl(["snapshot", "save", "--output", str(bad)]) == 3
    assert len(list(tmp_path.iterdir())) == 3, "nothing is left beside"


def test_a_link_that_comes_at_the_last_moment_is_replaced_and_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    precious, target = tmp_path / "precious", tmp_path / "target"
    precious.write_text("x")
    monkeypatch.setattr(newfile, "_check", lambda *_: target.symlink_to(precious))
    newfile.write(str(target), b"data")
    assert precious.read_text() == "x" and not target.is_symlink() and target.read_bytes() == b"data"


def test_save_replaces_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "x"
    target.write_bytes(b"old")
    target.chmod(0o644)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            newfile.write(str(target), b"new")
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]
    newfile.write(str(target), b"new")
    assert target.read_bytes() == b"new" and stat.S_IMODE(target.stat().st_mode) == 0o600


def test_without_pid_1_there_is_nothing_to_save(
    tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    def see_host(*, deep: bool = False) -> Any:
        raise world.CouldNotKnow("PID 1 has no /proc entry")

    monkeypatch.setattr("ostreewatchd.cli.snapshot.see_host", see_host)
    target = tmp_path / "x"
    assert ostreewatchctl(["snapshot", "save", "--output", str(target)]) == 3
    assert capsys.readouterr().err == "ostreewatchctl: PID 1 has no /proc entry\n" and not target.exists()

# SPDX-License-Identifier: Apache-2.0
"""What people get to see: explain, words, journal entries, notifications. Other evidence, another text."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostreewatchd.cli import history as history_verb
from ostreewatchd.cli import main as ostreewatchctl
from ostreewatchd.cli.explain import explain, matches
from ostreewatchd.cli.scan import as_object
from ostreewatchd.judge import judge
from ostreewatchd.model import Settings, Subject, short_name
from ostreewatchd.plan import plan
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal, Kind, encode
from ostreewatchd.report.jsontext import json_text
from ostreewatchd.report.notify import Notifier
from ostreewatchd.report.printable import printable
from tests.fakes.journald import FakeJournal, decode
from tests.unit.worlds import CNI, NEW, NEW_NAME, OLD, World, stale, there, world


def explained(built: World) -> str:
    snapshot = built.snapshot()
    findings = judge(snapshot)
    return "\n".join(explain(findings, plan(snapshot, findings, Settings())))


# --- explain ------------------------------------------------------------------------------------------------------


def test_explain_says_all() -> None:
    """Invariant 11: evidence, rule, step, why nothing smaller, why nothing larger."""
    text = explained(stale())
    for part in (
        "kube-system/calico-node-x1/calico-node", "pod UID uid-of-calico-node-x1",
        f"{CNI}, in the container /host{CNI}",
        "the container has  65024:10347112 (debian-aaaaaaaaaa.0)",
        "the host has now   65024:10371999 (debian-bbbbbbbbbb.0)",
        f"mount of the container: {OLD.mount}", f"mount of the host: {NEW.mount}",
        "verdict  stale, owed", "rule     stale-mount: A container's bind still shows", "update 23d2727",
        "step     stop container (grace 0 s)", "preStop hooks do not run", "smaller  none", "larger   stop",
    ):  # fmt: skip
        assert part in text, part


CHANGES: list[Callable[[World], World]] = [
    lambda built: built.host(CNI, there(4711, of=NEW_NAME, serial=900)),
    lambda built: built.bind(CNI, there(42, serial=2), path="/elsewhere"),
    lambda built: built.bind("/usr", there(1)).host("/usr", there(2)),
    lambda built: built.host(CNI, msgspec.structs.replace(NEW, mount="1 2 8:1 / /etc rw - ext4 a rw")),
    lambda built: built.kubelet(problem="no kubelet process is running", refusal="kubelet-inactive"),
    lambda built: built.runtime(problem="it is silent"),
    lambda built: built.flag(),
    lambda built: built.switch().act(outcome="cured", container_id="0" * 64),
    lambda built: built.switch().act(outcome="not-cured", container_id="0" * 64),
    lambda built: built.host(CNI, msgspec.structs.replace(NEW, serial=400, born_at=None)),
    lambda built: built.host(CNI, msgspec.structs.replace(NEW, names=())),
]


@pytest.mark.parametrize("change", CHANGES)
def test_other_evidence_is_another_text(change: Callable[[World], World]) -> None:
    assert explained(change(stale())) != explained(stale())


def test_all_these_changes_are_told_apart() -> None:
    texts = [explained(change(stale())) for change in CHANGES]
    assert len(set(texts)) == len(texts)


def test_a_refusal_is_explained_with_what_ends_it() -> None:
    text = explained(stale(labels={}))
    assert (
        "refused  restart-policy-unknown" in text
        and "ends when the container shows what the host has" in text
        and "step " not in text
    )
    assert "refused  shutting-down" in explained(stale().system(state="stopping"))


def test_what_is_noted_has_no_step() -> None:
    text = explained(world().host("/usr", there(2)).container("a").bind("/usr", there(1)))
    assert "nothing due" in text and "remedy   on request" in text and "  step" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [("kube-system/calico", True), ("calico-node", True), ("abcdef", True), ("abc", False), ("multus", False)],
)
def test_which_subject_is_meant(text: str, expected: bool) -> None:
    subject = Subject(
        namespace="kube-system", pod="calico-x", container="calico-node", container_id="abcdef" + "0" * 58
    )
    assert matches(subject, text) is expected


# --- words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        (Subject(namespace="n", pod="p", container="c", container_id="f" * 64), "n/p/c"),
        (Subject(namespace="kube-system", pod="web-x1"), "kube-system/web-x1"),
        (Subject(container_id="f" * 64), f"container {'f' * 12}"),
        (Subject(kind="host"), "host"),
    ],
)
def test_no_name_is_empty(subject: Subject, expected: str) -> None:
    assert str(subject) == expected


def test_summary_counts() -> None:
    built = stale().container("b").bind("/usr", there(1)).host("/usr", there(2)).container("c").bind("/lib", there(3))
    snapshot = built.snapshot()
    text = words.summary(snapshot, judge(snapshot))
    assert text == "live debian-bbbbbbbbbb.0, booted debian-aaaaaaaaaa.0; 3 containers; 1 owed, 1 noted, 1 unknown"
    assert words.summary(world().snapshot(), ()).endswith("0 containers; nothing stale")


def test_a_switch_by_halves_is_said() -> None:
    assert "in /etc and debian-bbbbbbbbbb.0 in /usr" in words.live(stale().partial().snapshot().live)


@pytest.mark.parametrize(
    ("name", "expected"),
    [(f"debian-{'3f' * 32}.0", "debian-3f3f3f3f3f.0"), (f"fedora-coreos-{'a' * 64}.12", "fedora-coreos-aaaaaaaaaa.12"),
     ("", "-"), ("odd", "odd"), ("a-b.0", "a-b.0")],
)  # fmt: skip
def test_short_name(name: str, expected: str) -> None:
    assert short_name(name) == expected


def test_hostile_names_cannot_forge_a_line() -> None:
    evil = "a\n\x1b[2J<0>all is well\u202e"
    snapshot = stale("x", pod=evil).snapshot()
    for finding in judge(snapshot):
        assert words.finding(finding).isprintable() and "\\x1b" in words.finding(finding)
    made = plan(snapshot, judge(snapshot), Settings())
    assert all(words.step(one).isprintable() for one in made.steps)
    refused = plan(stale("x", pod=evil, labels={}).snapshot(), judge(snapshot), Settings())
    assert all(words.refusal(one).isprintable() for one in refused.refusals)
    act = stale("x", pod=evil).switch().act(outcome="cured").snapshot().history.acts[0]
    assert words.act(act).isprintable() and "cured: p" in words.act(act)


def test_printable_keeps_what_is() -> None:
    assert printable("Größe 日本 ok") == "Größe 日本 ok"
    assert printable("a\tb\udcff") == "a\\tb\\udcff"


def test_scan_json_has_the_issues_fields() -> None:
    snapshot = stale().switch().snapshot()
    found = msgspec.json.decode(msgspec.json.encode(as_object(snapshot, judge(snapshot))))
    assert found["node"] == "node0" and found["live"]["deployment"] == NEW_NAME
    assert found["live"]["usr_class"] == "other-deployment" and found["live"]["since"]
    (finding,) = found["findings"]
    assert {"rule", "verdict", "owed", "subject", "path", "expected", "actual", "reason", "remedy"} <= set(finding)
    assert {"kind", "namespace", "pod", "pod_uid", "container", "container_id"} <= set(finding["subject"])
    assert set(finding["expected"]) == set(finding["actual"]) == {"dev", "ino", "deployment"}


def test_a_path_that_is_no_utf8_is_shown_and_breaks_no_json() -> None:
    """Invariant 12: on Linux a path is bytes."""
    path = "/etc/cni/net.d/\udcff"
    snapshot = stale().host(path, there(2)).bind(path, there(1)).snapshot()
    found = msgspec.json.decode(json_text(as_object(snapshot, judge(snapshot))))
    assert path.replace("\udcff", "\\udcff") in [one["path"] for one in found["findings"]]
    assert "\\udcff" in "\n".join(words.finding(one) for one in judge(snapshot))


def test_the_command_has_the_verbs_and_their_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["scan", "--help"], ["explain", "--help"]):
        with pytest.raises(SystemExit) as ended:
            ostreewatchctl(arguments)
        assert ended.value.code == 0
    for arguments in ([], ["nonsense"], ["explain"], ["scan", "--nonsense"]):
        with pytest.raises(SystemExit) as ended:
            ostreewatchctl(arguments)
        assert ended.value.code == 2
    assert "exit status" in capsys.readouterr().out
    assert history_verb.__doc__


# --- the journal --------------------------------------------------------------------------------------------------


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeJournal]:
    with FakeJournal(tmp_path / "journal") as one:
        yield one


def test_an_entry_has_its_fields(fake: FakeJournal) -> None:
    journal = Journal("ostreewatchd", fake.path)
    (finding,) = judge(stale().snapshot())
    journal.report(Kind.OWED, "it is\nstale", subject=finding.subject, path=CNI, nothing=None, alarm=1)
    journal.close()
    (entry,) = fake.entries()
    assert entry["MESSAGE"] == b"it is\\nstale"
    assert entry["MESSAGE_ID"] == Kind.OWED.message_id.encode() and entry["PRIORITY"] == b"4"
    assert entry["SYSLOG_IDENTIFIER"] == b"ostreewatchd" and entry["OSTREEWATCHD_KIND"] == b"owed"
    assert entry["OSTREEWATCHD_POD"] == b"calico-node-x1" and entry["OSTREEWATCHD_PATH"] == CNI.encode()
    assert "OSTREEWATCHD_NOTHING" not in entry and "OSTREEWATCHD_UNIT" not in entry


@given(st.dictionaries(st.text(st.sampled_from("ABC_"), min_size=1), st.text(max_size=50), max_size=5))
def test_the_encoding_is_the_protocols(entry: dict[str, str]) -> None:
    entry = {name: text.encode("utf-8", "ignore").decode() for name, text in entry.items()}
    assert decode(encode(entry)) == {name: os.fsencode(text) for name, text in entry.items()}


def test_a_full_journal_does_not_block_and_is_told_later(fake: FakeJournal) -> None:
    """Invariants 8 and 12."""
    journal = Journal("x", fake.path)
    for number in range(3000):
        journal.report(Kind.NOTED, "a" * 200, number=number)
    sent = len(fake.entries())
    assert 0 < sent < 3000
    journal.report(Kind.NOTED, "and then")
    journal.close()
    (last,) = fake.entries()
    assert int(last["OSTREEWATCHD_LOST_ENTRIES"]) == 3000 - sent


def test_without_a_journal_it_goes_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal("x", str(tmp_path / "none"))
    journal.report(Kind.NOT_CURED, "it did\x1b not help")
    journal.close()
    assert capsys.readouterr().err == "<2>it did\\x1b not help\n"


def test_a_field_has_an_end(fake: FakeJournal) -> None:
    journal = Journal("x", fake.path)
    journal.report(Kind.NOTED, "m" * 100_000)
    journal.close()
    (entry,) = fake.entries()
    assert len(entry["MESSAGE"]) == 16 << 10


# --- sd_notify ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    name = str(tmp_path / "notify") if request.param == "path" else f"@ostreewatchd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as one:
        one.bind("\0" + name[1:] if name.startswith("@") else name)
        one.setblocking(False)
        yield one, name


def test_what_systemd_is_told(manager: tuple[socket.socket, str]) -> None:
    one, name = manager
    notifier = Notifier({"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())})
    assert notifier.watchdog == 15.0
    notifier.ready()
    notifier.status("a\nREADY=0 " + "x" * 1000)
    notifier.alive()
    notifier.stopping()
    notifier.close()
    told = [one.recv(4096).decode() for _ in range(4)]
    assert told[0] == "READY=1" and told[2:] == ["WATCHDOG=1", "STOPPING=1"]
    assert told[1].startswith("STATUS=a READY=0") and "\n" not in told[1] and len(told[1]) < 520


@pytest.mark.parametrize(
    "environment",
    [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nowhere/x", "WATCHDOG_USEC": "soon"},
     {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}],
)  # fmt: skip
def test_without_a_manager_nothing_happens(environment: dict[str, str]) -> None:
    notifier = Notifier(environment)
    assert notifier.watchdog is None
    notifier.ready()
    notifier.status("x")
    notifier.alive()
    notifier.close()


def test_a_manager_that_does_not_read_does_not_block(manager: tuple[socket.socket, str]) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager[1]})
    for _ in range(2000):
        notifier.status("x" * 400)
    notifier.close()

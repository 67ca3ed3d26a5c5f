# SPDX-License-Identifier: Apache-2.0
"""Saved snapshots: whatever was saved is read as it was, whatever else is read is an error with a name, and nothing in
a file makes a program stumble."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostreewatchd.cli.explain import explain
from ostreewatchd.cli.snapshot import file_name, prepared
from ostreewatchd.judge import judge
from ostreewatchd.model import SNAPSHOT_FORMAT, Problem, Settings, Snapshot, Unreadable
from ostreewatchd.plan import plan
from ostreewatchd.replay import bounds, form
from ostreewatchd.replay.diff import diff
from ostreewatchd.replay.secrets import without_secrets
from ostreewatchd.report import words
from tests.unit.worlds import CNI, NEW, OLD, stale, there, world

SAMPLE = Path(__file__).with_name("data") / "snapshot-format-1.json"
FILE = form.dump(stale().switch().act(outcome="cured").flag().snapshot())


# --- what was saved -----------------------------------------------------------------------------------------------


def test_what_was_saved_is_read() -> None:
    snapshot = msgspec.structs.replace(stale().switch().before().act().snapshot(), settings=Settings(mode="observe"))
    assert form.load(form.dump(snapshot)) == snapshot


@pytest.mark.parametrize(
    "path",
    [
        "/etc/caf\udce9", "/a\udcff\udc80/%41%", "bytes:", "bytes:/etc", "bytes:%FF", "/etc/ünïcode", "/\udcc3\udca9",
        "/tab\tand\nline\x00\x1b\\", "/\U0001f433\udcf0",
    ],
)  # fmt: skip
def test_bytes_that_are_no_text_come_back(path: str) -> None:
    snapshot = stale().bind(path, OLD, path=path + "x").host(path, NEW).snapshot()
    data = form.dump(snapshot)
    json.loads(data)  # Valid for others too.
    assert form.load(data) == snapshot
    assert judge(form.load(data)) == judge(snapshot)


_TEXT = st.text(st.characters(blacklist_categories=["Cs"]) | st.integers(0xDC80, 0xDCFF).map(chr))


@given(st.lists(_TEXT, max_size=6))
def test_any_text_comes_back(texts: list[str]) -> None:
    built = stale().part(problems=tuple(Problem(where=text, what=f"bytes:{text}") for text in texts))
    assert form.load(form.dump(built.snapshot())) == built.snapshot()


def test_other_texts_are_written_as_they_are() -> None:
    text = FILE.decode()
    assert '"/host/etc/cni/net.d"' in text and "bytes:" not in text


def test_format_1_stays_readable_for_ever() -> None:
    """This file is never written again. It was saved with ostreewatchd 0.1.0."""
    assert json.loads(SAMPLE.read_bytes())["format"] == 1
    snapshot = form.load(SAMPLE.read_bytes())
    assert snapshot.format == SNAPSHOT_FORMAT and snapshot.node.name == "controller-7"
    owed = [one for one in judge(snapshot) if one.owed]
    assert [str(one.subject) for one in owed] == ["kube-system/calico-node-x1/calico-node"]
    (step,) = plan(snapshot, owed, snapshot.settings or Settings()).steps
    assert step.subject == owed[0].subject and step.kind == "stop-container"
    assert "/srv/caf\udce9" in [bind.host_path for bind in snapshot.containers[0].binds]
    assert [act.outcome for act in snapshot.history.acts] == ["cured", "superseded"]
    assert snapshot.ostree.unreadable == (Unreadable(path="/run/ostree/staged-deployment", what="torn"),)
    assert form.load(form.dump(snapshot)) == snapshot, "saved again it is of the newest format"


@pytest.mark.parametrize(
    ("line", "path", "what"),
    [
        ("/a: b: c", "/a", "b: c"),
        ("/a", "/a", ""),
        ("bytes:/caf%E9: 5 %25", "/caf\udce9", "5 %"),
    ],
)
def test_a_file_that_format_1_calls_unreadable(line: str, path: str, what: str) -> None:
    old = {**json.loads(FILE), "format": 1}
    old["ostree"] = {**old["ostree"], "unreadable": [line]}
    snapshot = form.load(json.dumps(old).encode())
    assert snapshot.ostree.unreadable == (Unreadable(path=path, what=what),)


def test_a_damaged_file_of_format_1_is_damaged() -> None:
    for ostree in ({"unreadable": [5]}, {"unreadable": "x"}, [], "x"):
        with pytest.raises(form.Damaged):
            form.load(changed(format=1, ostree=ostree))


# --- what is no snapshot ------------------------------------------------------------------------------------------


def changed(**what: object) -> bytes:
    return json.dumps({**json.loads(FILE), **what}).encode()


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", form.NotJson, "no JSON"),
        (b"\x7fELF\x02", form.NotJson, "no JSON"),
        (FILE[:-20], form.NotJson, "no JSON"),
        (b"[" * 100_000, form.NotJson, "no JSON"),
        (FILE.replace(b'"node0"', b'"\xff"'), form.NotJson, "no JSON"),
        (b"[]", form.NotASnapshot, "not a snapshot"),
        (b'"text"', form.NotASnapshot, "not a snapshot"),
        (b'{"node": "n", "live": {}, "findings": []}', form.NotASnapshot, "not a snapshot"),
        (changed(format=SNAPSHOT_FORMAT + 1, containers="of another type"), form.NewerFormat, "use a newer one"),
        (changed(format="1"), form.Damaged, "its format"),
        (changed(format=True), form.Damaged, "its format"),
        (json.dumps({key: value for key, value in json.loads(FILE).items() if key != "format"}).encode(),
         form.NotASnapshot, "lacks format"),
        (FILE.replace(b'"usr_class": "other-deployment"', b'"usr_class": "mine"'), form.Damaged, "$.live.usr_class"),
        (changed(kubelet={"refusal": "no"}), form.Damaged, "$.kubelet.refusal"),
        (re.sub(b'"ino": [0-9]+', b'"ino": -1', FILE), form.Damaged, ".identity.ino"),
        (changed(format=0), form.Damaged, "its format"),
        (changed(taken_at="now"), form.Damaged, "$.taken_at"),
        (changed(taken_at=1e300), form.Damaged, "$.taken_at"),
        (changed(taken_boottime=None), form.Damaged, "$.taken_boottime"),
        (changed(containers=[{}]), form.Damaged, "$.containers[0]"),
        (changed(torn="bytes:%4"), form.Damaged, "%"),
        (changed(torn="bytes:%41"), form.Damaged, "%41"),
        (b" " * (form.MAX_BYTES + 1), form.TooLarge, "bytes"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else None,
)  # fmt: skip
def test_each_kind_of_wrong_file_has_its_error(data: bytes, error: type[form.SnapshotError], says: str) -> None:
    with pytest.raises(error, match="(?s)") as caught:
        form.load(data)
    assert type(caught.value) is error and says in str(caught.value) and len(str(caught.value)) < 400


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults() -> None:
    document = json.loads(FILE)
    document["from the future"] = {"a": [1]}
    document["node"]["rack"] = 7
    for name in ("ostree", "torn", "daemons", "vm_sandboxes", "settings", "anonymized"):
        del document[name]
    assert form.load(json.dumps(document).encode()) == form.load(FILE)


def use(snapshot: Snapshot) -> None:
    """All that a program does with one."""
    findings = judge(snapshot)
    made = plan(snapshot, findings, snapshot.settings or Settings())
    texts = [words.summary(snapshot, findings), *map(words.finding, findings), *explain(findings, made)]
    texts += [*map(words.step, made.steps), *map(words.refusal, made.refusals), *map(words.act, snapshot.history.acts)]
    texts += [*diff(form.load(FILE), snapshot), *diff(snapshot, form.load(FILE)), file_name(snapshot)]
    assert all(isinstance(text, str) for text in texts)
    for anonymized in (False, True):
        again = prepared(snapshot, anonymized=anonymized)
        assert form.load(form.dump(again)) == again


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_an_error_or_a_snapshot(data: bytes) -> None:
    try:
        use(form.load(data))
    except form.SnapshotError as error:
        assert str(error)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, len(FILE) - 1), st.binary(min_size=1, max_size=4), st.integers(0, 40))
def test_a_damaged_file_is_an_error_or_a_snapshot(at: int, put: bytes, drop: int) -> None:
    try:
        use(form.load(FILE[:at] + put + FILE[at + drop :]))
    except form.SnapshotError as error:
        assert str(error)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8) | st.sampled_from(["bytes:%FF", "container", "cured", CNI, "/"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.lists(_JSON, min_size=1, max_size=4))
def test_any_value_at_any_place_is_an_error_or_a_snapshot(seed: int, values: list[Any]) -> None:
    """Well-formed, and not what anybody saved: a name where no name was, a time before the world, a list cut short."""
    document = json.loads(FILE)
    chance = random.Random(seed)
    for value in values:
        spot: Any = document
        while True:
            key = chance.choice(sorted(spot) if isinstance(spot, dict) else range(len(spot)))
            inner = spot[key]
            if not isinstance(inner, (dict, list)) or not inner or chance.random() < 0.1:
                break
            spot = inner
        spot[key] = value
    try:
        use(form.load(json.dumps(document).encode()))
    except form.SnapshotError as error:
        assert str(error)


# --- bounds -------------------------------------------------------------------------------------------------------


def crowd(count: int) -> Snapshot:
    built = world().host(CNI, NEW).host("/usr", there(9))
    for number in range(count):
        built.container(f"fresh-{number:04d}").bind("/usr", there(9), path="/u" * 50)
    return built.container("calico-node").bind(CNI, OLD).snapshot()


def test_a_small_one_is_not_touched() -> None:
    assert bounds.bounded(stale().snapshot()) == stale().snapshot()
    assert not crowd(20).problems and bounds.bounded(crowd(20)) == crowd(20)


def test_a_large_one_is_cut_says_so_and_keeps_what_is_owed() -> None:
    whole = crowd(400)
    limit = len(form.dump(whole)) // 3
    small = bounds.bounded(whole, max_bytes=limit)
    assert len(form.dump(small)) <= limit
    assert 50 <= len(small.containers) < 200
    assert [one for one in judge(small) if one.owed] == [one for one in judge(whole) if one.owed] != []
    made = plan(small, judge(small), Settings())
    assert made == plan(whole, judge(whole), Settings()) and made.steps
    (problem,) = small.problems
    assert "not whole" in problem.what
    assert f"{len(small.containers)} of 401 containers" in problem.what


def test_it_ends_also_where_nothing_fits() -> None:
    assert len(form.dump(bounds.bounded(crowd(100), max_bytes=6000))) <= 6000


def test_long_texts_and_lists_are_cut() -> None:
    built = stale().part(problems=tuple(Problem(where=str(n), what="x" * 20_000) for n in range(600)))
    small = bounds.bounded(built.snapshot())
    assert len(small.problems) == 501 and "500 of 600 problems" in small.problems[0].what
    assert all(len(one.what) <= bounds.MAX_TEXT for one in small.problems)
    assert small.problems[1].what.endswith("(cut off)")


def test_what_is_cut_is_what_matters_least() -> None:
    """The newest acts and the references of what is owed stay; what was cut is said, and not at any length."""
    whole = crowd(400)
    acts = stale().switch().act(outcome="cured").snapshot().history.acts
    many = tuple(msgspec.structs.replace(acts[0], id=number) for number in range(1, 1300))
    references = tuple(
        msgspec.structs.replace(whole.references[0], host_path=f"/of/nobody/{number}") for number in range(300)
    )
    whole = msgspec.structs.replace(
        whole,
        history=msgspec.structs.replace(whole.history, acts=many),
        references=references + whole.references,
        containers=tuple(
            msgspec.structs.replace(one, binds=one.binds * 1200) if index < 30 else one
            for index, one in enumerate(whole.containers)
        ),
    )
    small = bounds.bounded(whole)
    assert [small.history.acts[0].id, small.history.acts[-1].id] == [300, 1299]
    assert len(small.problems[0].what) < 2000 and small.problems[0].what.endswith("; and more")
    small = bounds.bounded(whole, max_bytes=len(form.dump(whole)) // 20)
    assert small.reference(CNI, small.init_mount_namespace) and len(small.references) < 302
    assert [one.owed for one in judge(small) if one.owed] == [True]


# --- secrets ------------------------------------------------------------------------------------------------------

_JWT = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl-_x"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"the server says: Bearer {_JWT} is not good", _JWT),
        (f"token: {_JWT}", _JWT),
        ("dav: https://user:hunter2@example.net/share does not answer", "hunter2"),
        ("61 30 0:45 / /mnt rw - fuse.s3fs b rw,user_id=0,passwd=hunter2,allow_other", "hunter2"),
        ("61 30 0:45 / /mnt rw - ceph m:/ rw,name=admin,secret=QVFC==,acl", "QVFC"),
        ('{"client-key-data": "TFMwdExTMUNSVWRKVGlC"}', "TFMwdExTMUNSVWRKVGlC"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", "MIIE"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE and cut", "MIIE"),
        ("key LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1JSUU= in it", "LS0tLS1CRUdJTiBQUk"),
        ("env API_KEY=abc123def PATH=/bin", "abc123def"),
        ("Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str, secret: str) -> None:
    assert secret in text
    cleared = without_secrets(text)
    assert secret not in cleared and "secret taken out" in cleared
    assert without_secrets(cleared) == cleared


def test_a_name_is_left_as_it_is() -> None:
    """Else two paths could become one."""
    built = stale().bind("/srv/token=abc", OLD)
    (bind,) = [one for one in prepared(built.snapshot(), anonymized=False).containers[0].binds if "srv" in one.path]
    assert bind.host_path == "/srv/token=abc"


def test_other_texts_are_left() -> None:
    snapshot = stale().switch().act(outcome="cured").flag().snapshot()
    texts = [one.reason for one in judge(snapshot)] + [OLD.mount, snapshot.live.fingerprint]
    made = plan(snapshot, judge(snapshot), Settings())
    texts += [one.because for one in (*made.steps, *made.refusals)]
    texts += ["http://127.0.0.1:10248 does not answer: timed out", "/run/x: Permission denied"]
    assert [without_secrets(text) for text in texts] == texts


def test_a_name_of_a_file() -> None:
    name: Callable[[str], str] = lambda node: file_name(  # noqa: E731
        msgspec.structs.replace(stale().snapshot(), node=msgspec.structs.replace(stale().snapshot().node, name=node))
    )
    assert name("node0") == "ostreewatchd-node0-20270115T080000Z.json"
    assert name("../../etc/x") == "ostreewatchd-_.._etc_x-20270115T080000Z.json"
    assert name("") == "ostreewatchd-node-20270115T080000Z.json"

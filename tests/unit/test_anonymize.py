# SPDX-License-Identifier: Apache-2.0
"""An anonymized snapshot tells nothing of whose node it is, and is judged and planned as the original is."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostreewatchd import model
from ostreewatchd.cli.snapshot import prepared
from ostreewatchd.judge import judge
from ostreewatchd.model import (
    Daemon,
    Finding,
    Node,
    Plan,
    Pod,
    Problem,
    Record,
    Settings,
    Snapshot,
    VmSandbox,
)
from ostreewatchd.plan import plan
from ostreewatchd.replay import form
from ostreewatchd.replay.anonymize import Renamer, anonymize
from ostreewatchd.replay.fields import KINDS
from tests.scenarios.kit.catalogue import names, scenario
from tests.scenarios.kit.recorded import load
from tests.unit.worlds import BOOT, CNI, NEW, OLD, World, gone, hex_id, stale, there, world

# --- the table of texts -------------------------------------------------------------------------------------------


def records() -> list[type[Record]]:
    found = [one for one in vars(model).values() if isinstance(one, type) and issubclass(one, Record)]
    return [one for one in found if one is not Record]


def texts_of(record: type[Record]) -> Iterator[str]:
    for name, kind in typing.get_type_hints(record).items():
        if _has_text(kind):
            yield f"{record.__name__}.{name}"


def _has_text(kind: Any) -> bool:
    if typing.get_origin(kind) is typing.Literal:
        return True
    inner = typing.get_args(kind)
    return any(map(_has_text, inner)) if inner else kind is str


def test_each_text_of_the_model_is_classified() -> None:
    """A new field of the model: say in replay/fields.py what it may hold, and whether it may be handed out."""
    assert set(KINDS) == {text for record in records() for text in texts_of(record)}


def test_each_record_of_a_snapshot_is_in_the_model() -> None:
    """Else the test above would not see its fields."""
    schema = msgspec.json.schema_components([Snapshot, Finding, Plan])[1]
    assert set(schema) <= {record.__name__ for record in records()}


# --- the same answers ---------------------------------------------------------------------------------------------

JOB = {"job-name": "night-run"}
REPLICA_SET = {"pod-template-hash": "7c9f8bd4"}
STATIC = {"kubernetes.io/config.source": "file"}


def busy() -> World:
    """Each way in which names of one place are compared with those of another."""
    built = world().host(CNI, NEW).host("/srv/acme", there(5)).host("/usr", there(9)).host("/srv/gone", gone())
    built.container("calico-node").bind(CNI, OLD)
    built.container("kube-multus").bind(CNI, OLD).bind("/usr", there(8), path="/usr")
    built.container("billing", pod="billing-7c9f8bd4-qqxzt", namespace="zebra-corp", labels=REPLICA_SET)
    built.bind("/srv/acme", there(4)).bind(CNI, OLD)
    built.container("nightly", pod="nightly-1", namespace="aardvark", labels=JOB).bind(CNI, OLD)
    built.container("api", pod="acmegw-boston-17", annotations=STATIC).bind(CNI, OLD).bind("/srv/gone", OLD)
    built.container("api", pod="acmegw-tls-boston-17", annotations=STATIC).bind(CNI, OLD)
    built.container("db", pod="wally-0", labels={"statefulset.kubernetes.io/pod-name": "wally-0"}).bind(CNI, OLD)
    built.container("ghost", known=False).bind(CNI, OLD)
    built.container("unnamed").bind(CNI, OLD).nameless()
    built.static_pod("acmegw", "Always").static_pod("acmegw-tls", "OnFailure")
    return built


CASES: dict[str, Callable[[], World]] = {
    "stale": stale,
    "busy": busy,
    "switched": lambda: busy().switch().before(),
    "restarted": lambda: stale().switch().act(outcome="cured", container_id="0" * 64),
    "resumed": lambda: stale().switch().act(),
    "breaker": lambda: stale().switch().act(outcome="not-cured"),
    "flag": lambda: busy().flag("/run/acme_is_patching"),
    "lost": lambda: stale().host(CNI, msgspec.structs.replace(NEW, names=("20-acme.conflist", "00-multus.conf"))),
    "kubelet": lambda: stale().kubelet(
        problem="https://10.8.0.7:6443 does not answer: timed out", refusal="api-server-out-of-reach"
    ),
    "unknown": lambda: world().host(CNI, gone("/mnt/acme is nfs4, which may not answer: not touched"))
    .container("calico-node").bind(CNI, OLD),
    "torn": lambda: stale().part(torn="/run/acme_is_patching came during the look"),
    "partial": lambda: stale().partial(),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mode", ["heal", "observe"])
def test_findings_and_plan_are_those_of_the_original(case: str, mode: model.Mode) -> None:
    snapshot, config = CASES[case]().snapshot(), Settings(mode=mode)
    assert judge(snapshot)
    same(snapshot, config)


def same(snapshot: Snapshot, config: Settings) -> None:
    """Findings and plan are the same, up to the renaming. Renamed on both sides: a rule's own text may have a word in
    it that is also a name of this node."""
    other, renamer = anonymize(snapshot), Renamer(snapshot)
    findings, found = judge(snapshot), judge(other)
    assert told(renamer.renamed(found)) == told(renamer.renamed(findings))
    mine, theirs = plan(snapshot, findings, config), plan(other, found, config)
    assert told(renamer.renamed(theirs.refusals)) == told(renamer.renamed(mine.refusals))
    assert told(renamer.renamed(theirs.steps)) == told(renamer.renamed(mine.steps))


def told(things: tuple[Record, ...]) -> list[str]:
    """Without their order: that is of names where all else is equal."""
    return sorted(map(repr, things))


def test_writers_are_restarted_in_the_same_order() -> None:
    snapshot = busy().snapshot()
    other = anonymize(snapshot)
    for one in (snapshot, other):
        steps = plan(one, judge(one), Settings()).steps
        assert [step.subject.container for step in steps][:2] == ["calico-node", "kube-multus"]


def test_the_cases_have_steps_and_refusals() -> None:
    """Else the above would compare nothing."""
    made = plan(busy().snapshot(), judge(busy().snapshot()), Settings())
    assert len(made.steps) == 5
    assert {one.name for one in made.refusals} == {
        "restart-policy-not-always", "runtime-does-not-know-it", "owner-unknown",
    }  # fmt: skip


# --- nothing of whose it is ---------------------------------------------------------------------------------------

OURS = (
    "zebra", "corp", "aardvark", "billing", "nightly", "qqxzt", "7c9f8bd4", "acme", "boston", "wally-0", "10.8.0.7",
    "fe80::7", "secretlab", BOOT, hex_id("billing-7c9f8bd4-qqxzt", "billing", 0)[:12], "aaaaaaaaaa", "bbbbbbbbbb",
    "export7", "uid-of", "nas.example", "moby", "caf\udce9", "10-9-8-7", "83456", "Zürich",
)  # fmt: skip


def telling() -> Snapshot:
    line = "61 30 0:45 /acme /mnt/secretlab rw - nfs4 nas.example.com:/export7 rw,vers=4.2,clientaddr=10.8.0.7"
    built = busy().host("/mnt/secretlab", silent(f"{line},addr=fe80::7"))
    built.bind("/srv/caf\udce9", OLD, path="/Zürich").switch().act(outcome="cured")
    return msgspec.structs.replace(
        built.snapshot(),
        node=Node(name="edge-83456.boston.example.com", boot_id=BOOT, kernel="6.1.0-acme-amd64", platform="generic"),
        problems=(
            Problem(
                where="container " + hex_id("moby")[:12], what="edge-83456: moby dick at ip-10-9-8-7 and [fe80::7]"
            ),
            Problem(where="/proc/7/mountinfo", what=f"pod zebra-corp/billing-7c9f8bd4-qqxzt on 10.8.0.7:443 {BOOT}"),
        ),
        daemons=(Daemon(kind="runtime", name="acme-containerd", pid=7, mount_namespace=1, unit="acme.service"),),
        vm_sandboxes=(VmSandbox(sandbox_id="f" * 64, pod=Pod(namespace="aardvark", name="x7", uid="u"), shim="acme"),),
        settings=Settings(cni_directories=("/opt/acme/net.d",)),
    )


def silent(line: str) -> model.Sight:
    return model.Sight(problem="/mnt/secretlab is nfs4, which may not answer: not touched", mount=line)


def test_nothing_of_the_nodes_own_is_left() -> None:
    snapshot = telling()
    before, after = (form.dump(prepared(snapshot, anonymized=it)).decode() for it in (False, True))
    for name in OURS:
        plain = name.replace("\udce9", "%E9")
        assert plain in before, name
        assert plain.lower() not in after.lower(), name
    for kept in ("kube-system", "calico-node", "kube-multus", "/etc/cni/net.d", "nfs4", "vers=4.2", "generic",
                 "/proc/7/mountinfo", "which may not answer: not touched", "10-calico.conflist", "amd64"):  # fmt: skip
        assert kept in after, kept
    assert form.load(after.encode()).anonymized and not form.load(before.encode()).anonymized


def test_what_was_equal_is_equal_and_what_was_not_is_not() -> None:
    snapshot = telling()
    after = anonymize(snapshot)
    ids = [[one.id for one in it.containers] for it in (snapshot, after)]
    assert len(set(ids[0])) == len(set(ids[1])) and all(re.fullmatch("[0-9a-f]{64}", id) for id in ids[1])
    assert snapshot.runtime is not None and after.runtime is not None
    for old, new in zip(snapshot.runtime.containers, after.runtime.containers):
        assert ids[0].index(old.id) == ids[1].index(new.id)
    assert after.history.switch is not None and after.history.switch.boot_id == after.node.boot_id != BOOT
    assert after.live.deployments.etc == after.live.deployments.usr != after.live.deployments.booted


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("no answer of 10.8.0.7:6443", r"no answer of ip\d:6443"),
        ("no answer of [fe80::a:7]:443", r"no answer of \[ip\d\]:443"),
        ("no answer of 2001:db8:1:2:3:4:5:6", r"no answer of ip\d"),
        ("no answer of ip-10-9-8-7", r"no answer of w\d-ip\d"),
        ("no answer of 127.0.0.1:10248 and [::1]:1", r"no answer of 127\.0\.0\.1:10248 and \[::1\]:1"),
        (f"pod {BOOT}", r"pod 00000000-0000-0000-0000-000000000001"),
        ("found 200000 mounts of 65024:4711 in 0.25 s", r"found 200000 mounts of 65024:4711 in 0\.25 s"),
        ("1.2.3 is a version", r"1\.2\.3 is a version"),
        ("Müller's", r"w\d's"),
    ],
)
def test_what_is_in_a_text(text: str, shape: str) -> None:
    after = anonymize(stale().part(problems=(Problem(where="x", what=text),)).snapshot())
    assert re.fullmatch(shape, after.problems[0].what), after.problems[0].what


def test_labels_that_nobody_asked_for() -> None:
    """A look keeps none; a file that was made by another may have some."""
    built = stale(labels={"corp.example.com/owner": "hugo", "pod-template-generation": "1"})
    after = anonymize(built.snapshot())
    assert after.runtime is not None
    labels = after.runtime.pods[0].labels
    assert "corp" not in repr(labels) and "hugo" not in repr(labels) and labels["pod-template-generation"] == "1"


def test_numbers_and_times_stay() -> None:
    snapshot = telling()
    after = anonymize(snapshot)
    assert after.taken_at == snapshot.taken_at
    assert [one.pid for one in after.containers] == [one.pid for one in snapshot.containers]
    assert [bind.sight.identity for one in after.containers for bind in one.binds] == [
        bind.sight.identity for one in snapshot.containers for bind in one.binds
    ]


def test_a_field_that_nobody_classified_is_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "ostreewatchd.replay.fields.KINDS", {key: kind for key, kind in KINDS.items() if key != "Node.platform"}
    )
    platform = anonymize(telling()).node.platform
    assert platform == "generic"  # A word of the platforms' tables.
    strange = msgspec.structs.replace(telling(), node=Node(name="n1", boot_id=BOOT, kernel="6", platform="acmeos"))
    assert "acme" not in anonymize(strange).node.platform


def test_a_name_that_is_a_word_of_the_language_is_still_a_name() -> None:
    """In names each word counts as a name, and is one then in sentences too."""
    built = stale().container("holds", namespace="shutdown").bind(CNI, OLD)
    built.part(problems=(Problem(where="shutdown/holds-x1/holds", what="it holds no kernel"),))
    after = anonymize(built.snapshot())
    assert "holds" not in repr(after) and "shutdown" not in repr(after)
    assert "kernel" in after.problems[0].what


def test_a_node_with_a_name_of_a_platform() -> None:
    """StarlingX calls its nodes controller-0, and a static pod ends in its node's name."""
    snapshot = busy().container("etcd", pod="etcd-controller-0", annotations=STATIC).bind(CNI, OLD)
    snapshot.static_pod("etcd", "Always")
    node = Node(name="controller-0", boot_id=BOOT, kernel="6", platform="generic")
    whole = msgspec.structs.replace(snapshot.snapshot(), node=node)
    after = anonymize(whole)
    assert after.node.name == "node1" and "controller-0" not in repr(after)
    assert "etcd-node1" in [one.pod.name for one in after.containers]
    assert len(plan(after, judge(after), Settings()).steps) == len(plan(whole, judge(whole), Settings()).steps)


def test_twice_is_as_good_as_once() -> None:
    once = anonymize(telling())
    assert judge(anonymize(once)) and len(anonymize(once).containers) == len(once.containers)


_NAME = st.from_regex(r"[a-z]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(_NAME, _NAME, _NAME, st.booleans()), min_size=1, max_size=6), _NAME)
def test_any_names(pods: list[tuple[str, str, str, bool]], node: str) -> None:
    """Whatever things are called: as many findings of each kind, and as many steps and refusals."""
    built = world().host(CNI, NEW)
    for name, pod, namespace, is_static in pods:
        built.container(name, pod=f"{pod}-{node}", namespace=namespace, annotations=STATIC if is_static else None)
        built.bind(CNI, OLD).bind(f"/srv/{pod}/{name}", OLD).host(f"/srv/{pod}/{name}", NEW)
        if is_static:
            built.static_pod(pod, "Always", namespace=namespace)
    snapshot = msgspec.structs.replace(
        built.snapshot(), node=Node(name=node, boot_id=BOOT, kernel="6", platform="generic")
    )
    after = anonymize(snapshot)
    judged = [(judge(one), plan(one, judge(one), Settings())) for one in (snapshot, after)]
    kinds = [sorted((one.rule, one.verdict, one.owed) for one in findings) for findings, _ in judged]
    assert kinds[0] == kinds[1] and kinds[0]
    steps = [(len(made.steps), sorted(one.name for one in made.refusals)) for _, made in judged]
    assert steps[0] == steps[1]


@pytest.mark.parametrize("name", names())
def test_each_reported_fault_is_judged_the_same_without_its_names(name: str) -> None:
    one = scenario(name)
    same(load(one.saved), one.settings)

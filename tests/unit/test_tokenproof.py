# SPDX-License-Identifier: Apache-2.0
"""A writer that was restarted has to have written its credential anew: which, and when that is proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ostreewatchd.judge import judge
from ostreewatchd.ledger import Ledger
from ostreewatchd.model import Credential, Daemon, Settings, Snapshot, Subject
from ostreewatchd.plan import plan
from ostreewatchd.remediation.loop import remediate
from ostreewatchd.remediation.proof import prove
from ostreewatchd.remediation.tokenproof import expected, missing, told
from ostreewatchd.report.journal import Journal
from tests.fakes.journald import FakeJournal
from tests.fakes.world import Node
from tests.fakes.world import Subject as Writer
from tests.unit import worlds
from tests.unit.runtimes import crio
from tests.unit.worlds import CNI, NEW, NOW, UPTIME, stale, world

CALICO, MULTUS = f"{CNI}/calico-kubeconfig", f"{CNI}/multus.d/multus.kubeconfig"
HOUR = 3600.0


def calico(**more: Any) -> Credential:
    base = Credential(path=CALICO, writer="calico", kind="token", issued_at=NOW - HOUR, expires_at=NOW + 23 * HOUR,
                      modified_at=NOW - HOUR)  # fmt: skip
    return msgspec.structs.replace(base, **more)


def multus(**more: Any) -> Credential:
    base = Credential(
        path=MULTUS, writer="multus", kind="token", issued_at=NOW - 600, expires_at=NOW + 3000, pod="kube-multus-x1",
        pod_uid="uid-of-kube-multus-x1", pod_is_here=True, modified_at=NOW - 600,
    )  # fmt: skip
    return msgspec.structs.replace(base, **more)


def before(name: str, *credentials: Credential) -> tuple[Snapshot, Subject]:
    snapshot = stale(name).part(credentials=credentials).snapshot()
    one = snapshot.containers[0]
    subject = Subject(namespace=one.pod.namespace, pod=one.pod.name, pod_uid=one.pod.uid, container=name,
                      container_id=one.id)  # fmt: skip
    return snapshot, subject


def after(name: str, *credentials: Credential) -> Snapshot:
    """The successor was started ten seconds ago."""
    built = world().host(CNI, NEW).container(name, attempt=1, started=UPTIME - 10).bind(CNI, NEW)
    return built.part(credentials=credentials).snapshot()


def test_what_is_expected() -> None:
    snapshot, subject = before("calico-node", calico(), multus())
    assert expected(snapshot, subject) == {CALICO: NOW - HOUR}
    own = calico(container_id=subject.container_id, issued_at=NOW - 60)
    late = calico(issued_at=NOW - 20 * HOUR, expires_at=NOW + 4 * HOUR)
    snapshot, subject = before("calico-node", late, own)
    assert expected(snapshot, subject) == {CALICO: NOW - 20 * HOUR}, "its own copy shows that it is kept up"
    snapshot, subject = before("calico-node", own)
    assert expected(snapshot, subject) == {CALICO: None}


@pytest.mark.parametrize(
    "one",
    [
        calico(issued_at=NOW - 20 * HOUR, expires_at=NOW + 4 * HOUR),
        calico(kind="certificate"),
        calico(kind="", problem="is empty", issued_at=None, expires_at=None),
        calico(expires_at=None),
        calico(writer=""),
        calico(container_id="another"),
        calico(pod_is_here=False),
    ],
)
def test_nothing_is_expected_of(one: Credential) -> None:
    """Who was silent already, is not known, or has no dates."""
    snapshot, subject = before("calico-node", one)
    assert not expected(snapshot, subject)


@pytest.mark.parametrize(
    ("name", "now", "why"),
    [
        ("calico-node", calico(issued_at=NOW - 8, modified_at=NOW - 8), ""),
        ("calico-node", calico(issued_at=NOW - 8, modified_at=NOW - 8, accepted=True), ""),
        ("calico-node", calico(), "is as old as before the restart"),
        ("calico-node", calico(issued_at=NOW - 60, modified_at=NOW - 60), "was not written since the restart"),
        ("calico-node", calico(issued_at=NOW - 8, modified_at=NOW - 8, accepted=False), "does not accept it"),
        ("calico-node", calico(kind="", problem="is empty", issued_at=None), "it is empty"),
        ("calico-node", multus(), f"the host has no {CALICO} yet"),
        ("kube-multus", multus(projected=True), ""),
        ("kube-multus", multus(projected=False, modified_at=NOW), "is not the one that kubelet has for the pod"),
        ("kube-multus", multus(projected=None), "was not written since the restart"),
        ("kube-multus", multus(projected=None, modified_at=NOW - 5), ""),
        ("kube-multus", multus(projected=True, pod_uid="another"), "is bound to another pod"),
        ("kube-multus", multus(projected=True, accepted=False), "the API server does not accept it"),
    ],
)
def test_what_is_missing(name: str, now: Credential, why: str) -> None:
    wanted = {CALICO: NOW - HOUR} if name == "calico-node" else {MULTUS: NOW - 600}
    snapshot = after(name, now)
    said = missing(snapshot, snapshot.containers[0], wanted)
    assert (why in said) and bool(why) == bool(said), said
    _, subject = before(name)
    proof = prove(snapshot, subject, wanted)
    assert (proof.verdict, proof.failure) == (("not-yet", "token-not-renewed") if why else ("cured", "still-stale"))
    if not why:
        assert ("accepted by" if now.accepted else "no API server was there") in told(snapshot, wanted)


@pytest.mark.parametrize("renews", [True, False])
def test_a_remediation_waits_for_the_token(tmp_path: Path, renews: bool) -> None:
    """Calico writes its token three seconds after its start, or never: then the proof fails under its own name, and
    the next one is restarted all the same, for its mount is stale."""
    node = Node([Writer("calico-node"), Writer("kube-multus")])
    node.switch()

    def change(built: worlds.World) -> worlds.World:
        calicos, at = node.subjects[0], node.clock
        renewed = renews and calicos.attempt and calicos.runs and at - calicos.started > 3
        issued = NOW - 500 if renewed else NOW - 1000
        one = calico(issued_at=issued, modified_at=issued, expires_at=issued + 24 * HOUR)
        return built.part(credentials=(one,))

    node.change = change
    with FakeJournal(tmp_path / "journal") as fake, Ledger(str(tmp_path / "ledger.db")) as ledger:
        journal = Journal("ostreewatchd-remediate", fake.path)
        remediate(node, ledger, journal, Settings(proof=10.0))
        acts = ledger.history().acts
        journal.close()
    assert [(one.subject.container, one.outcome, one.failure) for one in acts] == [
        ("calico-node", "cured" if renews else "not-cured", "" if renews else "token-not-renewed"),
        ("kube-multus", "cured", ""),
    ]
    if renews:
        assert f"{CALICO} issued" in acts[0].proof


def test_a_writer_that_is_restarted_for_its_silence_has_to_bring_one() -> None:
    expired = calico(issued_at=NOW - 48 * HOUR, expires_at=NOW - 24 * HOUR)
    snapshot, subject = before("calico-node", expired)
    assert not expected(snapshot, subject)
    asked = msgspec.structs.replace(snapshot, restarts_silent_writers=True)
    assert expected(asked, subject) == {CALICO: NOW - 48 * HOUR}


@pytest.mark.parametrize("helps", [True, False])
def test_a_silent_writer_is_restarted_once(tmp_path: Path, helps: bool) -> None:
    """And no more if it brings no newer token: an alarm, never a loop."""
    node = Node([Writer("calico-node", serial=500)])

    def change(built: worlds.World) -> worlds.World:
        renewed = helps and node.subjects[0].attempt
        one = calico(issued_at=NOW - 60, modified_at=NOW, expires_at=NOW + 86340) if renewed else calico(
            issued_at=NOW - 99_500, modified_at=NOW - 99_500, expires_at=NOW - 13_100
        )  # fmt: skip
        return built.part(credentials=(one,), restarts_silent_writers=True)

    node.change = change
    with FakeJournal(tmp_path / "journal") as fake, Ledger(str(tmp_path / "ledger.db")) as ledger:
        journal = Journal("ostreewatchd-remediate", fake.path)
        for _ in range(3):
            node.clock = max(node.clock, 60_000.0)
            remediate(node, ledger, journal, Settings(proof=5.0, restart_silent_writers=True))
        acts = ledger.history().acts
        journal.close()
    assert [(one.outcome, one.failure) for one in acts] == [
        ("cured", "") if helps else ("not-cured", "token-not-renewed")
    ]
    assert sum(node.stops.values()) == 1


def test_kubelets_cached_token_is_ended_by_its_restart_alone() -> None:
    """Where units may be restarted; once, and not while the token is bound to nothing of kubelet's."""
    kubelet = Daemon(kind="kubelet", name="kubelet", pid=900, mount_namespace=worlds.HOST, unit="kubelet.service")
    one = multus(accepted=False, projected=True)
    built = (
        world().host(CNI, NEW).container("kube-multus").bind(CNI, NEW).part(daemons=(kubelet,), node_runtime=crio())
    )
    snapshot = built.part(credentials=(one,)).snapshot()
    made = plan(snapshot, judge(snapshot), Settings(lock="none"))
    assert [(step.kind, str(step.subject)) for step in made.steps] == [("restart-unit", "kubelet.service")]
    held = plan(snapshot, judge(snapshot), Settings())
    assert not held.steps and [refusal.name for refusal in held.refusals] == ["no-lock"]
    for other in (multus(accepted=False, projected=False), multus(accepted=None, projected=True)):
        snapshot = built.part(credentials=(other,)).snapshot()
        assert not plan(snapshot, judge(snapshot), Settings(lock="none")).steps

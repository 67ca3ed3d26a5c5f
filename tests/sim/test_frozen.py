# SPDX-License-Identifier: Apache-2.0
"""Each collaborator frozen in turn: the remediation ends within its limit and says whose fault it was."""

from __future__ import annotations

import ast
import fcntl
from collections.abc import Mapping
from typing import Union

import pytest

from ostreewatchd.ledger import last_run, read
from ostreewatchd.peers.systemd import SystemdError
from ostreewatchd.remediation import program
from ostreewatchd.report.journal import Kind
from tests.sim.bridge import under
from tests.sim.events import DO, Event
from tests.sim.node import Node, Shape
from tests.sim.replay import folder
from tests.unit.sources import imports, modules

FROZEN = {
    "runtime asked": (Event(at=0.0, do="runtime-lists", how="away"), "runtime-not-answering"),
    "kubelet": (Event(at=0.0, do="kubelet", how="stop"), "kubelet-inactive"),
    "systemd": (Event(at=0.0, do="systemd", how="silent"), "systemd-not-answering"),
    "runtime stopping": (Event(at=0.0, do="runtime", how="silent"), "container-will-not-stop"),
    "runtime refusing": (Event(at=0.0, do="runtime", how="refuses"), "stop-failed"),
    "kubelet starting": (Event(at=0.0, do="returns", who="calico-node", how="never"), "container-will-not-start"),
    "kubelet making a sandbox": (
        Event(at=0.0, do="returns", who="calico-node", how="never"),
        "sandbox-will-not-start",
    ),
    "the container": (Event(at=0.0, do="returns", who="calico-node", how="stale"), "still-stale"),
    "a person": (Event(at=0.0, do="pause", value=3600.0), "paused"),
    "the platform's script": (Event(at=0.0, do="flag"), "switch-in-progress"),
    "the runtime's namespace": (Event(at=0.0, do="shim"), "runtime-is-stale"),
    "kubelet's API server": (Event(at=0.0, do="kubelet", how="restart"), "api-server-out-of-reach"),
    "rpm-ostree at work": (Event(at=0.0, do="rpm-ostree", how="Upgrade of debian"), "transaction-under-way"),
    "a maintenance window": (Event(at=0.0, do="window", how="15", value=7200.0), "outside-window"),
}


SILENT = {
    "rpm-ostree": Event(at=0.0, do="rpm-ostree", how="silent"),
    "a filesystem": Event(at=0.0, do="blind", who="calico-node"),
}
"""Of these it is not known what they would say, and the rest goes on."""

COLLABORATORS: Mapping[str, Union[str, tuple[str, ...]]] = {
    "act.stop": ("runtime stopping", "runtime refusing"),
    "act.unit": ("the watcher's unit",),
    "peers.apiserver": "whether it takes a token; no answer in time is none (tests/unit/test_apiserver.py)",
    "peers.aside": ("a filesystem",),
    "peers.bus": ("rpm-ostree",),
    "peers.cri.acts": ("runtime stopping", "runtime refusing"),
    "peers.cri.channel": ("runtime asked", "runtime stopping"),
    "peers.cri.client": ("runtime asked",),
    "peers.cri.errors": "names only",
    "peers.cri.runtime_pb2": "names only",
    "peers.cri.types": "names only",
    "peers.crio": "a child of its own, from the disk, with a deadline",
    "peers.errors": "names only",
    "peers.hostmounts": "the kernel: /proc/1/mountinfo waits for nobody",
    "peers.http": ("kubelet", "kubelet's API server"),
    "peers.kubeletapi": ("kubelet",),
    "peers.paths": "the kernel; a filesystem that may not answer is not stepped on",
    "peers.proc": "the kernel; what a process could hold up is not read",
    "peers.rpmostree": ("rpm-ostree", "rpm-ostree at work"),
    "peers.systemd": ("systemd", "the watcher's unit"),
    "peers.units": ("systemd",),
    "peers.watches": "the kernel: fdinfo, and a watch of its own for a moment",
}
"""All that a remediation talks to: who is frozen for it, or why there is nobody."""


@pytest.mark.parametrize("who", FROZEN)
def test_it_ends_and_says_whose_fault_it_was(who: str) -> None:
    """Invariants 7, 8 and 11."""
    event, name = FROZEN[who]
    with folder() as place:
        node = Node(Shape(), str(place / "ledger.db"))
        with under(node):
            node.remediate()
            DO[event.do](node, event)
            if who == "the runtime's namespace":
                DO["runtime-namespace"](node, event)
            if who == "kubelet making a sandbox":
                DO["shim"](node, event)
            if who == "kubelet's API server":
                DO["api-server"](node, Event(at=0.0, do="api-server", how="away"))
                DO["kubelet"](node, event)
            node.host.mount(node.host.etc, node.host.deploy(()))
            node.host.mount(node.host.usr, node.host.etc[-1].deployment)
            began = node.timeline.now
            result = node.remediate()
            assert result is not None and node.timeline.now - began < 120.0
            run, acts = last_run(node.path), read(node.path).acts
    told = {one.name for one in result.plan.refusals} | {act.failure for act in acts}
    assert name in told, told
    assert run is not None and run.ended_at is not None
    assert all(count == 1 for count in node.truth.stops.values())


@pytest.mark.parametrize("how", ["readonly", "full"])
def test_a_frozen_disk(how: str) -> None:
    """Invariant 6: no ledger, no act."""
    with folder() as place:
        node = Node(Shape(), str(place / "ledger.db"))
        with under(node):
            node.remediate()
            node.disk.state = how
            node.host.mount(node.host.etc, node.host.deploy(()))
            node.host.mount(node.host.usr, node.host.etc[-1].deployment)
            result = node.remediate()
    assert result is not None and "ledger-unusable" in {one.name for one in result.plan.refusals}
    assert not node.truth.stops


@pytest.mark.parametrize("who", SILENT)
def test_who_is_not_needed_for_it_holds_nobody_back(who: str) -> None:
    """Invariants 4 and 12: what can be told is cured; what cannot restarts nothing."""
    with folder() as place:
        node = Node(Shape(), str(place / "ledger.db"))
        with under(node):
            node.remediate()
            DO[SILENT[who].do](node, SILENT[who])
            node.host.mount(node.host.etc, node.host.deploy(()))
            node.host.mount(node.host.usr, node.host.etc[-1].deployment)
            result = node.remediate()
    stopped = {name for _, (_, name), _ in node.truth.stops}
    everybody = {one.name for one in node.subjects}
    assert result is not None and stopped == everybody - {SILENT[who].who}


def test_another_remediation_that_never_ends() -> None:
    """Invariant 8: it is not waited for."""
    with folder() as place:
        node = Node(Shape(), str(place / "ledger.db"))
        with under(node), open(node.path + ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            began = node.timeline.now
            assert node.remediate() is None and node.timeline.now == began
    assert node.lines[-1].endswith("[another one runs]")


def test_a_watcher_that_cannot_be_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last act: what was cured stays told as cured."""
    told: list[tuple[Kind, str]] = []

    class Journal:
        def report(self, kind: Kind, message: str, **_: object) -> None:
            told.append((kind, message))

    def frozen(_: str) -> None:
        raise SystemdError("systemd, asked to restart ostreewatchd.service: no answer", "see `systemctl status`")

    monkeypatch.setattr(program, "stale_watcher", lambda _: "it runs from an old tree")
    monkeypatch.setattr(program, "restart_if_running", frozen)
    program._restart_stale_watcher(Journal())  # type: ignore[arg-type]
    ((kind, message),) = told
    assert kind is Kind.FAILED and "systemd, asked to restart ostreewatchd.service" in message


# --- that these are all -------------------------------------------------------------------------------------------


def test_all_that_a_remediation_talks_to_is_known() -> None:
    """Whatever it imports, directly or not, of what reaches out of the process."""
    known = {module.name: module for module in modules()}
    seen: set[str] = set()
    ahead = ["ostreewatchd.remediation.program"]
    while ahead:
        name = ahead.pop()
        if name in known and name not in seen:
            seen.add(name)
            ahead += [other for _, other in imports(known[name])]
    places = {name.removeprefix("ostreewatchd.") for name in seen}
    assert {name for name in places if name.startswith(("act.", "peers."))} == set(COLLABORATORS)
    frozen = {*FROZEN, *SILENT, "the watcher's unit"}
    assert {who for value in COLLABORATORS.values() if isinstance(value, tuple) for who in value} <= frozen


def test_nobody_is_asked_without_a_deadline() -> None:
    """Invariant 8. systemd's is one of the library's, set where it is opened; rpm-ostree's one of the whole talk."""
    calls = 0
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "Runtime.connect",
                "RuntimeActs.connect",
                "http.get",
                "KubeletApi",
                "accepts",
            ):
                calls += 1
                assert "deadline" in {word.arg for word in node.keywords}, f"{module.where}:{node.lineno}"
    assert calls >= 5

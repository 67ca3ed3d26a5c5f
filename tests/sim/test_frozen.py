# SPDX-License-Identifier: Apache-2.0
"""Each collaborator frozen in turn: the remediation ends within its limit and says whose fault it was."""

from __future__ import annotations

import pytest

from ostreewatchd.ledger import last_run, read
from tests.sim.bridge import under
from tests.sim.events import DO, Event
from tests.sim.node import Node, Shape
from tests.sim.replay import folder

FROZEN = {
    "runtime asked": (Event(at=0.0, do="runtime-lists", how="away"), "runtime-not-answering"),
    "kubelet": (Event(at=0.0, do="kubelet", how="stop"), "kubelet-inactive"),
    "systemd": (Event(at=0.0, do="systemd", how="silent"), "systemd-not-answering"),
    "runtime stopping": (Event(at=0.0, do="runtime", how="silent"), "container-will-not-stop"),
    "runtime refusing": (Event(at=0.0, do="runtime", how="refuses"), "stop-failed"),
    "kubelet starting": (Event(at=0.0, do="returns", who="calico-node", how="never"), "container-will-not-start"),
    "the container": (Event(at=0.0, do="returns", who="calico-node", how="stale"), "still-stale"),
    "a person": (Event(at=0.0, do="pause", value=3600.0), "paused"),
    "the platform's script": (Event(at=0.0, do="flag"), "switch-in-progress"),
    "the runtime's namespace": (Event(at=0.0, do="shim"), "runtime-is-stale"),
}


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

# SPDX-License-Identifier: Apache-2.0
"""Others act at the very moment of the product's own act, or instead of it, or keep it from working."""

import os
import signal
import threading
from pathlib import Path
from typing import Any, Optional

import pytest

from tests.lab import cuts, others
from tests.lab.cuts import Moments
from tests.lab.node import Node
from tests.lab.others import NAMES, Round
from tests.lab.trace import Call, follow
from tests.lab.witness import facts, idle, ledger, reports

pytestmark = pytest.mark.lab

CONFIGURATION = "[Remediation]\nProofSec=6\n"


@pytest.fixture
def round(shared_node: Node) -> Round:
    return others.begin(shared_node)


def test_the_script_twice_before_the_remediation(round: Round) -> None:
    """It runs again, as it does when the first run did not end well: what it started anew the product leaves alone."""
    switch = round.node.in_service_patch(stop_after=3)
    for times in (1, 2):
        round.script()
        after = round.settled()
        assert {name: one.restarts for name, one in after.items()} == dict.fromkeys(NAMES, times)
    switch.resume()
    round.stays(after)
    round.check(after)
    assert round.by_us() == {name: [] for name in NAMES}


def test_the_script_a_crash_and_pmond_at_the_very_moment_of_an_act(round: Round) -> None:
    """The script stops the container that the product is about to stop, while it does; the next one dies by itself
    when its intent is on disk; and containerd is killed, as pmond would, when it has been asked for the third and has
    not begun. Each is restarted once."""
    node = round.node
    script = threading.Thread(target=lambda: round.script(["calico-node"]))
    runtime = cuts.main_process(node, "containerd.service", "containerd")
    third = node.container(f"kube-multus{round.suffix}", "multus-watcher")
    switches = len(ledger(node, "SELECT id FROM switch"))
    with cuts.held(node):
        node.in_service_patch()
        moments = Moments(node, switches, acts=3)

        def on_call(call: Call) -> bool:
            moment = moments.of(call)
            at = (moment.act, moment.name) if moment else (0, "")
            if at == (1, "intent: ask for the stop 1 begins"):
                script.start()
            elif at == (2, "intent: unlink ledger.db-journal 1 done"):
                dies = node.container(f"kube-multus{round.suffix}", "kube-multus")
                node.kill(dies.pid)
                round.by_others["kube-multus"].add(dies.id)
            elif at == (3, "intent: ask for the stop 1 begins"):
                os.kill(runtime, signal.SIGSTOP)
            elif at == (3, "intent: ask for the stop 1 done"):
                assert Path(node.root, "proc", str(third.pid)).exists()
                os.kill(runtime, signal.SIGKILL)
            return False

        follow(cuts.take(node), on_call)
        script.join(20)

    after = round.settled()
    round.check(after)
    assert {name: one.restarts for name, one in after.items()} == dict.fromkeys(NAMES, 1)
    assert not reports(node, "not-cured")


def test_a_container_that_will_not_stop(round: Round) -> None:
    """Its shim does nothing with the stop that it is given. That is a failure with a name; nothing else is restarted;
    and when the shim goes on, what was asked for long ago is the one restart, and the others have their turn."""
    node = round.node
    shim = _parent(node, node.container(f"calico-node{round.suffix}").pid)
    node.kill(shim, signal.SIGSTOP)
    node.in_service_patch()
    entry = node.wait(lambda: _of_this(round, "not-cured"), 60, "the act is told to have failed", every=0.2)
    assert entry["OSTREEWATCHD_FAILURE"] == "container-will-not-stop"
    node.wait(lambda: idle(node), 20, "the remediation has ended")
    assert "breaker" in {one["name"] for one in facts(node, "status")["refusals"]}
    assert others.counted(node, round.suffix, NAMES) == round.before
    assert [(name, outcome) for name, _, outcome in round.acts()] == [("calico-node", "not-cured")]

    node.kill(shim, signal.SIGCONT)

    after = round.settled(timeout=120)
    round.check(after)
    assert {name: one.restarts for name, one in after.items()} == dict.fromkeys(NAMES, 1)


def _parent(node: Node, pid: int) -> int:
    return int(Path(node.root, "proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])


def _of_this(round: Round, kind: str) -> Optional[dict[str, Any]]:
    found = [
        one for one in reports(round.node, kind) if one["OSTREEWATCHD_POD"].startswith(f"calico-node{round.suffix}-")
    ]
    return found[-1] if found else None

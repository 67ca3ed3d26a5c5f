# SPDX-License-Identifier: Apache-2.0
"""What a person orders, and the second rung of the ladder, on the node."""

import pytest

from tests.lab.node import Node
from tests.lab.witness import (
    WATCHER,
    acts,
    ctl,
    facts,
    fresh,
    healed,
    idle,
    instances,
    ledger,
    reports,
    start_writers,
    status_text,
    untouched,
    wait_refusal,
)

pytestmark = pytest.mark.lab

_APART = "/run/systemd/system/containerd.service.d"


def test_a_pause_holds_until_it_is_ended(node: Node) -> None:
    """It outlives the watcher, is shown wherever somebody looks, and what was owed is healed when it ends."""
    before = start_writers(node)
    assert ctl(node, "pause", "--for", "1h", "--why", "a demo")[0] == 0
    node.wait(lambda: "paused until" in status_text(node), 30, "the watcher was woken by the order")
    node.in_service_patch()
    entry = wait_refusal(node, "paused")
    assert "a demo" in entry["MESSAGE"] and entry["OSTREEWATCHD_ALARM"] == "0"
    node.sh(["systemctl", "restart", WATCHER])
    node.wait(lambda: "a demo" in status_text(node), 10, "the new watcher knows of it")
    assert facts(node, "status")["pause"]["why"] == "a demo" and "a demo" in ctl(node, "plan")[1]
    untouched(node, before, seconds=0.5)
    assert acts(node) == []

    assert ctl(node, "resume")[0] == 0

    healed(node, before)
    node.wait(lambda: "paused" not in status_text(node), 30, "the watcher knows of the end")
    assert reports(node, "paused") and reports(node, "resumed")


def test_a_shim_that_has_not_seen_the_switch_needs_a_new_sandbox(node: Node) -> None:
    """The pods were started by a containerd in a private mount namespace; it has been restarted outside of that since,
    and their shims live on in there."""
    node.sh(
        f"mkdir -p {_APART} && printf '[Service]\\nMountFlags=private\\n' >{_APART}/apart.conf"
        " && systemctl daemon-reload && systemctl restart containerd"
    )
    before = start_writers(node)
    node.sh(f"rm {_APART}/apart.conf && systemctl daemon-reload && systemctl restart containerd")
    node.in_service_patch()

    node.wait(lambda: fresh(node) and idle(node), 90, "both are fresh")

    steps = ledger(node, "SELECT step, outcome, failure FROM act ORDER BY id")
    assert steps == [("stop-sandbox", "cured", "")] * 2
    after = instances(node)
    for name, one in after.items():
        assert one.uid == before[name].uid and one.sandbox != before[name].sandbox, "the same pod, another sandbox"
        assert one.restarts == before[name].restarts + 1
    assert ctl(node, "status")[0] == 0

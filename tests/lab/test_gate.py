# SPDX-License-Identifier: Apache-2.0
"""ostreewatchctl gate on a node with a real kubelet and containerd: not yet, then recovered; kubelet gone, runtime
gone, a pod that fails: each names its row."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.lab import pods
from tests.lab.node import Node

pytestmark = pytest.mark.lab


def gate(node: Node, *options: str) -> tuple[int, dict[str, Any]]:
    done = node.sh(["ostreewatchctl", "gate", "--json", *options], check=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def verdicts(answer: dict[str, Any]) -> dict[str, str]:
    return {row["name"]: row["verdict"] for row in answer["rows"]}


def test_containerd_is_restarted_by_hand(shared_node: Node) -> None:
    node = shared_node
    for manifest in (pods.calico_node(), pods.plain()):
        node.apply_pod(manifest)
    for name in ("calico-node", "plain"):
        node.wait_pod(name)
    # One look will do for a record; that it is not enough for a verdict is said.
    status, before = gate(node, "--timeout", "0s")
    assert (status, before["cause"]) == (1, "all good, for 0 of 10 s")
    node.sh("cat >/tmp/before.json", input=json.dumps(before))

    node.sh(["systemctl", "restart", "containerd"])
    status, now = gate(node, "--timeout", "0s", "--before", "/tmp/before.json")
    assert (status, now["verdict"]) == (1, "not-yet")
    status, after = gate(node, "--wait", "--timeout", "40s", "--before", "/tmp/before.json")
    assert (status, after["verdict"], after["alarm"]) == (0, "recovered", ""), after["cause"]
    old, new = (one["evidence"]["samples"][-1] for one in (before, after))
    assert old["runtime"]["invocation"] != new["runtime"]["invocation"]
    assert old["kubelet"] == new["kubelet"]  # Not coupled on this node.
    assert {one["id"] for one in old["cri"]["containers"]} == {one["id"] for one in new["cri"]["containers"]}
    # Standalone: nobody reports to an API server. All else is seen, over the API that answers everybody here.
    assert verdicts(after).pop("node-lease") == "unseen"
    assert {name for name, verdict in verdicts(after).items() if verdict == "unseen"} == {"node-ready", "node-lease"}

    # What it printed is judged again elsewhere; and in the past nothing of it is fresh.
    node.sh("cat >/tmp/after.json", input=json.dumps(after))
    assert gate(node, "--from", "/tmp/after.json") == (0, after)


def test_kubelet_is_gone(shared_node: Node) -> None:
    node = shared_node
    node.sh(["systemctl", "stop", "kubelet"])
    try:
        status, answer = gate(node)
        assert status == 1 and {"kubelet-unit", "kubelet-health"} <= {
            name for name, verdict in verdicts(answer).items() if verdict == "bad"
        }
        assert "kubelet.service is inactive" in answer["cause"]
    finally:
        node.sh(["systemctl", "start", "kubelet"])


def test_a_pod_fails(shared_node: Node) -> None:
    node = shared_node
    node.apply_pod(pods.pod("failing", "exit 3"))
    node.wait(lambda: [one for one in node.pods() if one.name.startswith("failing") and one.containers], 20, "it came")
    node.wait(lambda: gate(node)[1]["cause"].find("failing") >= 0, 20, "the gate names it", every=1)
    node.remove_pod("failing")


def test_the_runtime_is_ready_and_knows_nothing(shared_node: Node) -> None:
    """Last: containerd has lost its database, and kubelet is held, so that it makes no pod anew."""
    node = shared_node
    node.sh("systemctl kill --signal=STOP kubelet && systemctl stop containerd")
    status, answer = gate(node)
    assert status == 1 and verdicts(answer)["runtime-unit"] == verdicts(answer)["runtime-ready"] == "bad"
    assert "containerd.service is inactive" in answer["cause"]

    node.sh("rm /var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db && systemctl start containerd")
    status, answer = gate(node)
    assert status == 1 and verdicts(answer)["runtime-unit"] == verdicts(answer)["runtime-ready"] == "good"
    assert verdicts(answer)["pods-known"] == verdicts(answer)["kubelet-health"] == "bad"
    assert "ready and knows none of its pods" in answer["alarm"]

# SPDX-License-Identifier: Apache-2.0
"""A runtime that has not taken over what its files have is restarted by the product: real containerd, kubelet coupled
to it and not, once each; and where the restart would break something, nothing is touched."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.errors import CriError
from tests.host.cri_creator import Creator
from tests.lab import pods
from tests.lab.node import Node
from tests.lab.witness import ctl, ledger

pytestmark = pytest.mark.lab

CONFIGURATION = "[Remediation]\nLock=none\n"
FILE = "/etc/containerd/config.toml"
DROP_IN = "/etc/systemd/system/kubelet.service.d/10-coupled.conf"
HANDLER = (
    '\n[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.{name}]\nruntime_type = "io.containerd.runc.v2"\n'
)


def starts(node: Node) -> dict[str, str]:
    """systemd's ids of the starts of both units."""
    units = ("containerd", "kubelet")
    shown = node.sh(["systemctl", "show", "--property=InvocationID", "--value", *units]).stdout.split()
    return dict(zip(units, shown))


def acts(node: Node) -> list[tuple[str, str]]:
    return ledger(node, "SELECT step, outcome FROM act ORDER BY id")


def add(node: Node, name: str) -> None:
    node.sh(f"cat >>{FILE}", input=HANDLER.format(name=name))


def planned(node: Node) -> dict[str, list[str]]:
    made = json.loads(ctl(node, "plan", "--json")[1])
    return {"steps": [one["kind"] for one in made["steps"]], "refusals": [one["name"] for one in made["refusals"]]}


def remediate(node: Node) -> int:
    return ctl(node, "remediate", "--wait", "60", timeout=90)[0]


@contextmanager
def sandbox(node: Node, handler: str) -> Iterator[None]:
    """A real one with that handler, as long as the block lasts. Raises CriError where it is not served."""
    socket = f"{node.root}/run/containerd/containerd.sock"
    with Creator(socket, "lab-handler") as runtime:
        id = runtime.sandbox(f"with-{handler}", "default", f"uid-{handler}", handler=handler)
        try:
            yield
        finally:
            with RuntimeActs.connect(socket, deadline=30) as by:
                by.stop_sandbox(id)
            runtime.ask("RemovePodSandbox", bytes((10, len(id))) + id.encode())


@pytest.fixture(autouse=True)
def as_it_was(shared_node: Node) -> Iterator[None]:
    """With a pod, and without anything to do; what a test has changed is taken back by a restart by hand."""
    node = shared_node
    if node.sh("test -e /root/config.toml", check=False).returncode != 0:
        node.apply_pod(pods.plain())
        node.wait_pod("plain")
        node.sh(f"cp {FILE} /root/config.toml")
        # Not settled: of a node that has just booted a file may be taken for newer than the start that has read it.
        node.sh("systemctl restart containerd && systemctl restart kubelet", check=False)
        node.wait_pod("plain")
    yield
    node.sh(f"cp /root/config.toml {FILE}; rm -f {DROP_IN}; systemctl daemon-reload")
    # kubelet ends where the runtime does not answer yet, and systemd starts it again.
    node.sh("systemctl restart containerd && systemctl restart kubelet", check=False)
    node.wait_pod("plain")


def test_a_new_handler_is_served_after_one_restart_that_kubelet_and_pods_do_not_see(shared_node: Node) -> None:
    node = shared_node
    assert planned(node) == {"steps": [], "refusals": []}, "a node with nothing to do"
    add(node, "first")
    with pytest.raises(CriError), sandbox(node, "first"):
        pass
    before, container, done = starts(node), node.container("plain"), len(acts(node))
    assert planned(node) == {"steps": ["restart-unit"], "refusals": []}

    assert remediate(node) == 0

    after = starts(node)
    assert after["containerd"] != before["containerd"] and after["kubelet"] == before["kubelet"]
    assert node.container("plain").id == container.id
    with sandbox(node, "first"):
        pass
    assert acts(node)[done:] == [("restart-unit", "cured")]
    row = ledger(
        node, "SELECT invocation, successor, done_boottime > intent_boottime FROM act ORDER BY id DESC LIMIT 1"
    )
    assert row == [(before["containerd"], after["containerd"], 1)]
    assert planned(node) == {"steps": [], "refusals": []}
    assert remediate(node) == 0 and starts(node) == after, "once"

    node.sh(f"cp /root/config.toml {FILE}")
    assert remediate(node) == 0 and starts(node)["containerd"] != after["containerd"]
    with pytest.raises(CriError), sandbox(node, "first"):
        pass


def test_kubelet_goes_along_where_it_requires_the_runtime(shared_node: Node) -> None:
    """systemd(1): with Requires= an explicit restart is propagated. What of it is new to systemd is seen all the
    same."""
    node = shared_node
    node.sh(f"mkdir -p $(dirname {DROP_IN}); cat >{DROP_IN}", input="[Unit]\nRequires=containerd.service\n")
    # Of kubelet alone: systemd does not know of the coupling yet.
    assert planned(node)["steps"] == ["restart-unit"], (
        ctl(node, "plan")[1] + ctl(node, "explain", "kubelet.service")[1]
    )
    node.sh("systemctl daemon-reload; systemctl restart kubelet")
    node.wait_pod("plain")
    add(node, "second")
    before, container, done = starts(node), node.container("plain"), len(acts(node))

    assert "kubelet.service" in ctl(node, "plan")[1]
    assert remediate(node) == 0

    after = starts(node)
    assert after["containerd"] != before["containerd"] and after["kubelet"] != before["kubelet"]
    assert node.sh("systemctl is-active containerd kubelet").stdout.split() == ["active", "active"]
    assert acts(node)[done:] == [("restart-unit", "cured")], "one act for both"
    assert node.container("plain").id == container.id
    assert planned(node) == {"steps": [], "refusals": []}


def test_a_malformed_file_is_named_with_its_line_and_nothing_is_touched(shared_node: Node) -> None:
    node = shared_node
    before, done = starts(node), len(acts(node))
    lines = int(node.sh(f"echo 'broken =' >>{FILE}; wc -l <{FILE}").stdout)

    code, text = ctl(node, "plan")

    assert code == 1 and f"{FILE}: line {lines}" in text and "configuration-would-not-start" in text
    assert remediate(node) == 1
    assert (starts(node), len(acts(node))) == (before, done)

# SPDX-License-Identifier: Apache-2.0
"""A node as OpenShift's are: kubelet on CRI-O and coupled to it, and rpm-ostree, with the installed watcher. Its bus,
its systemd, its kubelet, its pods and the overlay on /usr are real.

CRI-O (tests/fakes/crio) and rpm-ostree's daemon (tests/fakes/rpmostreed.py) are stand-ins: `crio check` may not be
called, rpm-ostree not be touched, nor its transaction's socket."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostreewatchd.peers.cri.errors import RuntimeRefused
from tests.lab import crio, kubelet, pods, rpmostree
from tests.lab.node import Node
from tests.lab.rpmostree import RpmOstree
from tests.lab.witness import (
    ctl,
    healed,
    instances,
    ledger,
    reports,
    start_writers,
    status_text,
    untouched,
    wait_refusal,
)

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def machine(built: None) -> Iterator[Node]:
    """kubelet runs on CRI-O there, as on the systems that have rpm-ostree."""
    made = crio.create(also=rpmostree.changes())
    try:
        yield made
        assert crio.marks(made) == []
    finally:
        made.destroy()


@pytest.fixture
def daemon(machine: Node) -> Iterator[RpmOstree]:
    with RpmOstree(machine) as made:
        yield made


def says(node: Node, text: str) -> None:
    node.wait(lambda: text in status_text(node), 10, f"STATUS has: {text}")


def test_kubelet_runs_pods_on_it(machine: Node) -> None:
    """One on the host's network, and one by its CNI. The product reaches it by its socket alone."""
    for manifest in (pods.plain(host_network=False), pods.calico_node()):
        machine.apply_pod(manifest)
    for name in ("plain", "calico-node"):
        assert machine.wait_pod(name).phase == "Running"
    ids = [one["containerID"] for pod in kubelet.pods(machine.leader) for one in pod["status"]["containerStatuses"]]
    assert len(ids) == 2 and all(id.startswith("cri-o://") for id in ids)
    saved = json.loads(ctl(machine, "snapshot", "save", "--output", "-")[1])
    seen = saved["runtime"]
    assert (seen["socket"], len(seen["pods"]), len(seen["containers"])) == (crio.SOCKET, 2, 2)
    (daemon,) = [one for one in saved["daemons"] if one["kind"] == "runtime"]
    assert daemon["unit"] == "crio.service"
    assert machine.sh(["readlink", f"/proc/{daemon['pid']}/exe"]).stdout == "/usr/bin/crio\n"
    assert machine.sh(["crio", "--version"]).stdout == "crio version 1.37.0\n"
    assert machine.sh(["crio", "config"]).returncode == 0


def test_the_watcher_hears_a_live_apply(machine: Node, daemon: RpmOstree) -> None:
    """From its call to its end, and a second one, which makes no mount; and the daemon's idle exit."""
    says(machine, "listening to rpm-ostree (not running")
    daemon.do("start")
    says(machine, "listening to rpm-ostree (idle)")
    files = {"/usr/bin/of-the-first": "#!/bin/sh\n", "/etc/of-the-first.conf": "x\n"}
    target = machine.commit(files)
    machine.deploy(target)
    daemon.do("transaction", "LiveFs")
    says(machine, "listening to rpm-ostree (LiveFs of debian is under way)")
    daemon.begin(target)
    says(machine, "rpm-ostree is applying a commit to the live /usr")
    assert "rpmostree LiveFs of debian is under way" in ctl(machine, "status")[1]
    daemon.write(files)
    daemon.end(target)
    machine.wait(lambda: reports(machine, "switch"), 10, "the journal has the switch")
    assert "unlocked, with an overlay (transient) on /usr" in reports(machine, "switch")[-1]["MESSAGE"]
    says(machine, "listening to rpm-ostree (idle)")
    assert machine.sh("cat /usr/bin/of-the-first /etc/of-the-first.conf").stdout == "#!/bin/sh\nx\n"

    mounts = machine.sh("cat /proc/1/mountinfo | wc -l").stdout
    second = machine.commit({"/usr/bin/of-the-second": "#!/bin/sh\n"})
    daemon.do("transaction", "UpdateDeployment")
    says(machine, "listening to rpm-ostree (UpdateDeployment of debian is under way)")
    daemon.begin(second)
    says(machine, "rpm-ostree is applying a commit to the live /usr")
    daemon.end(second, "UpdateDeployment")
    says(machine, "listening to rpm-ostree (idle)")
    assert machine.sh("cat /proc/1/mountinfo | wc -l").stdout == mounts
    assert daemon.do("calls"), "it was asked, by its unique name"
    daemon.do("exit")
    says(machine, "listening to rpm-ostree (not running")


def test_a_new_handler_is_shown_after_a_reload_and_served_after_a_restart(machine: Node, daemon: RpmOstree) -> None:
    """cri-o#10202: it comes by a live-apply, and what a reload shows proves nothing, to the gate neither. kubelet goes
    along with the restart, the containers stay what they are."""
    daemon.do("start")
    daemon.apply_live(crio.brought("kata"))
    machine.sh("systemctl reload crio")
    machine.wait(lambda: "kata" in crio.shown(machine), 10, "the handler is shown")
    with pytest.raises(RuntimeRefused, match="failed to find runtime handler kata from runtime list"):
        crio.probe(machine, "kata")
    status, rows = gate(machine, "--handler", "kata")
    assert (status, rows["handlers"], rows["runtime-unit"]) == (1, "old", "old")
    before = instances(machine, ["plain", "calico-node"])
    kubelets = machine.sh(["systemctl", "show", "-P", "InvocationID", "kubelet"]).stdout

    machine.sh(["systemctl", "restart", "crio"])

    status, rows = gate(machine, "--handler", "kata", "--wait", "--timeout", "60s")
    assert (status, rows["handlers"], rows["runtime-unit"]) == (0, "good", "good")
    assert crio.probe(machine, "kata")
    assert machine.sh(["systemctl", "show", "-P", "InvocationID", "kubelet"]).stdout != kubelets
    assert instances(machine, ["plain", "calico-node"]) == before


def test_the_product_restarts_it_once_for_a_handler_that_a_live_apply_brought(
    machine: Node, daemon: RpmOstree
) -> None:
    """Decided, done by one job, judged as recovered; planned again: nothing."""
    daemon.do("start")
    acts = "SELECT step, outcome FROM act WHERE step = 'restart-unit'"
    before, pods_before, done = (
        start_of_crio(machine),
        instances(machine, ["plain", "calico-node"]),
        ledger(machine, acts),
    )
    machine.sh(
        "mkdir -p /etc/ostreewatchd && cat >/etc/ostreewatchd/ostreewatchd.conf", input="[Remediation]\nLock=none\n"
    )
    daemon.apply_live(crio.brought("extra"))
    assert ctl(machine, "remediate", "--wait", "90", timeout=120)[0] == 0
    assert ledger(machine, acts)[len(done) :] == [("restart-unit", "cured")]
    after = start_of_crio(machine)
    assert after != before
    assert crio.probe(machine, "extra")
    status, rows = gate(machine, "--handler", "extra", "--wait", "--timeout", "60s")
    assert (status, rows["handlers"]) == (0, "good")
    assert instances(machine, ["plain", "calico-node"]) == pods_before
    assert json.loads(ctl(machine, "plan", "--json")[1])["steps"] == []
    assert ctl(machine, "remediate", "--wait", "60", timeout=90)[0] == 0
    assert start_of_crio(machine) == after
    machine.sh("rm /etc/ostreewatchd/ostreewatchd.conf; systemctl reload ostreewatchd")


def start_of_crio(node: Node) -> str:
    return node.sh(["systemctl", "show", "-P", "InvocationID", "crio"]).stdout


def test_nothing_is_done_while_a_transaction_is_under_way(machine: Node, daemon: RpmOstree) -> None:
    """And when it has ended nobody needs to ask again."""
    daemon.do("start")
    before = start_writers(machine)
    daemon.do("transaction", "UpdateDeployment")
    says(machine, "listening to rpm-ostree (UpdateDeployment of debian is under way)")
    machine.in_service_patch()
    entry = wait_refusal(machine, "transaction-under-way")
    assert "UpdateDeployment of debian is under way" in entry["MESSAGE"]
    untouched(machine, before, seconds=0.5)
    daemon.do("finish")
    healed(machine, before)


def test_ready_and_knows_none_of_its_pods(machine: Node) -> None:
    """The last one: killed, and a layer was damaged. It is READY; its containers run on, and are nobody's."""
    before = machine.containers()
    assert before
    machine.sh("touch /var/lib/containers/storage/damaged-layer")
    machine.kill("crio")
    machine.wait(lambda: machine.sh("systemctl is-active crio", check=False).returncode != 0, 10, "it is dead")
    machine.sh("systemctl start crio")
    status, rows = gate(machine)
    assert status == 1
    assert (rows["runtime-ready"], rows["runtime-unit"]) == ("good", "good")
    assert {name for name, verdict in rows.items() if verdict == "bad"} >= {"pods-known", "all-managed"}
    assert all(Path(machine.root, "proc", str(one.pid)).exists() for one in before)


def gate(node: Node, *options: str) -> tuple[int, dict[str, str]]:
    """Exit status and each row's verdict."""
    status, text = ctl(node, "gate", "--json", *options, timeout=120)
    return status, {row["name"]: row["verdict"] for row in json.loads(text)["rows"]}

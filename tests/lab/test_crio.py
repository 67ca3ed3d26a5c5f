# SPDX-License-Identifier: Apache-2.0
"""CRI-O under systemd, with kubelet on it and coupled to it as on OpenShift: what a restart takes over and a reload
does not. CRI-O itself is a stand-in (tests/fakes/crio); systemd, kubelet and the pods are real."""

import json
from collections.abc import Iterator

import pytest

from ostreewatchd.peers.cri.errors import RuntimeRefused
from tests.lab import crio, kubelet, pods
from tests.lab.node import Node
from tests.lab.witness import ctl, instances

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def machine(built: None) -> Iterator[Node]:
    made = crio.create()
    try:
        yield made
        assert crio.marks(made) == []
    finally:
        made.destroy()


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
    assert [one["unit"] for one in saved["daemons"] if one["kind"] == "runtime"] == ["crio.service"]


def test_a_new_handler_is_shown_after_a_reload_and_served_after_a_restart(machine: Node) -> None:
    """cri-o#10202. kubelet goes along with the restart, the containers stay what they are."""
    path, text = crio.drop_in("extra")
    machine.sh(f"cat >{path}", input=text)
    machine.sh("systemctl reload crio")
    machine.wait(lambda: "extra" in crio.shown(machine), 10, "the handler is shown")
    with pytest.raises(RuntimeRefused, match="failed to find runtime handler extra from runtime list"):
        crio.probe(machine, "extra")
    before = instances(machine, ["plain", "calico-node"])
    kubelets = machine.sh(["systemctl", "show", "-P", "InvocationID", "kubelet"]).stdout

    machine.sh(["systemctl", "restart", "crio"])

    assert crio.probe(machine, "extra")
    assert machine.sh(["systemctl", "show", "-P", "InvocationID", "kubelet"]).stdout != kubelets
    assert instances(machine, ["plain", "calico-node"]) == before

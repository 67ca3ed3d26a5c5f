# SPDX-License-Identifier: Apache-2.0
"""What operators see of a stale mount, on a node with an API server, Multus and real tokens: pods that do not start
because their CNI is told Unauthorized."""

import time
from collections.abc import Iterator

import pytest

from tests.lab import cluster, switch
from tests.lab.cluster import Cluster
from tests.lab.witness import PATH_UNIT, REMEDIATION, WATCHER, ctl, findings, healed, instances, untouched

pytestmark = pytest.mark.lab

UNHEALED = 12.0
"""Seconds after the switch without the product. With it a cure takes four."""


@pytest.fixture(scope="module")
def shared(built: None) -> Iterator[Cluster]:
    """One node for all tests of this module, with Multus and what stands in for Calico. A test leaves it switched
    once more, and healthy."""
    made = Cluster.boot()
    try:
        made.start_writer(cluster.multus())
        made.start_writer(cluster.calico_node())
        yield made
    finally:
        made.node.destroy()


def test_pods_start_again(shared: Cluster) -> None:
    """After the switch the host has the token of a pod that was made anew meanwhile: no pod starts. Without the
    product it stays so; with it each writer is restarted once, and the next pod has its interface."""
    node = shared.node
    shared.start(cluster.plain("before"))
    node.wait(lambda: shared.interfaces("before"), 30, "a pod of a healthy node has its interface")
    node.sh(["systemctl", "stop", PATH_UNIT, REMEDIATION, WATCHER])
    begun = switch.begin(node, node.commit({"/usr/share/lab/release": "1"}))
    writers = [_made_anew(shared), _pod(shared, "calico-node")]
    before = instances(node, writers)
    begun.resume()
    host = shared.token(cluster.MULTUS)
    node.wait(lambda: not shared.accepts(host), 20, "the API server has forgotten the old pod's token")

    shared.start(cluster.plain("during"))
    said = node.wait(lambda: shared.events("during", "FailedCreatePodSandBox"), 30, "a pod cannot start")
    assert 'plugin type="multus"' in said[0]
    assert said[0].endswith("error waiting for pod: Unauthorized")
    wrong = [one for one in findings(node, "") if one["rule"] == "token-orphaned"]
    assert [(one["verdict"], one["path"]) for one in wrong] == [("wrong", cluster.MULTUS)]

    untouched(node, before, begun.mounted[-1] + UNHEALED - time.time())
    assert shared.token(cluster.MULTUS) == host
    assert not shared.accepts(host)
    assert not shared.interfaces("during")

    node.sh(["systemctl", "start", PATH_UNIT, WATCHER])
    healed(node, before, writers)
    now = shared.token(cluster.MULTUS)
    assert cluster.bound_to(now) == before[writers[0]].uid
    assert shared.accepts(now)
    shared.start(cluster.plain("after"))
    node.wait(lambda: shared.interfaces("after"), 30, "the next pod has its interface")
    assert shared.events("after", "AddedInterface")
    assert not shared.events("after", "FailedCreatePodSandBox")
    assert ctl(node, "scan")[0] == 0
    untouched(node, instances(node, writers), 1.0)


def _pod(shared: Cluster, container: str) -> str:
    """The one that has a running container of that name."""
    found = [one.pod for one in shared.node.containers() if one.name == container]
    assert len(found) == 1
    return found[0]


def _made_anew(shared: Cluster) -> str:
    """Another pod in the place of Multus', as at each update of its DaemonSet; its name."""
    shared.remove(_pod(shared, "kube-multus"), cluster.SYSTEM)
    return shared.start_writer(cluster.multus())

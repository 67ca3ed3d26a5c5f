# SPDX-License-Identifier: Apache-2.0
"""The outage as it comes by itself, some time after a live switch: kubelet makes a new token for Multus, Multus writes
it into the old tree, and the host's ends. Twelve minutes with the shortest time that a token may have; in the field,
up to 24 h. Only with OSTREEWATCHD_EXPIRY=1 in the environment, as `make soak` has it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import cluster, daemons
from tests.lab.cluster import Cluster
from tests.lab.witness import MOUNTED, PATH_UNIT, REMEDIATION, WATCHER, ctl, findings, healed, instances, untouched

pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(not os.environ.get("OSTREEWATCHD_EXPIRY"), reason="takes twelve minutes: make soak"),
]


@pytest.fixture
def shared(built: None) -> Iterator[Cluster]:
    """A node with an API server."""
    made = Cluster.boot()
    try:
        yield made
    finally:
        made.node.destroy()


def test_the_token_of_the_host_ends(shared: Cluster) -> None:
    """Nothing is done by hand but the switch: the daemon is not there until the outage has come. That of whereabouts
    ends as well, and would do so without the switch: what watches its token writes it anew only when the certificate
    authority is another too (script/token-watcher.sh: a shell's && and || bind alike)."""
    node = shared.node
    whereabouts = shared.start_writer(daemons.whereabouts())
    multus = shared.start_writer(daemons.multus())
    writers = [whereabouts, multus, shared.start_writer(daemons.calico_node())]
    shared.start(daemons.plain("before"))
    node.wait(lambda: shared.interfaces("before"), 30, "a pod of a healthy node has its interface")
    node.sh(["systemctl", "stop", WATCHER, REMEDIATION, PATH_UNIT])
    node.in_service_patch()
    before = instances(node, writers)
    host = shared.token(cluster.MULTUS)
    assert host == shared.projected(before[multus].uid)

    inside = f"{MOUNTED}{cluster.MULTUS[len('/etc/cni/net.d') :]}"
    mine = Path(node.root, f"proc/{node.container(multus).pid}/root", inside.lstrip("/"))
    node.wait(lambda: shared.projected(before[multus].uid) != host, 660, "kubelet has made a new token", every=2)
    renewed = shared.projected(before[multus].uid)
    node.wait(
        lambda: renewed in mine.read_text(), 150, "Multus has written it, where it thinks that the host reads it"
    )
    assert shared.token(cluster.MULTUS) == host
    assert shared.accepts(host)
    assert "token-diverged" in [one["rule"] for one in findings(node, multus)]

    node.wait(lambda: not shared.accepts(host), 240, "the host's token has ended", every=2)
    assert shared.accepts(renewed)
    shared.start(daemons.plain("during"))
    said = node.wait(lambda: shared.events("during", "FailedCreatePodSandBox"), 30, "a pod cannot start")
    assert said[0].endswith("error waiting for pod: Unauthorized")
    wrong = {(one["rule"], one["path"]) for one in findings(node, "") if one["verdict"] == "wrong"}
    assert wrong == {("token-expired", cluster.MULTUS), ("token-expired", cluster.WHEREABOUTS)}
    untouched(node, before)

    node.sh(["systemctl", "start", PATH_UNIT, WATCHER])
    healed(node, before, writers)
    assert shared.token(cluster.MULTUS) == shared.projected(before[multus].uid)
    assert shared.token(cluster.WHEREABOUTS) == shared.projected(before[whereabouts].uid)
    shared.start(daemons.plain("after"))
    node.wait(lambda: shared.interfaces("after"), 30, "the next pod has its interface")
    assert shared.events("after", "AddedInterface")
    node.wait(lambda: shared.interfaces("during"), 60, "so has the one that waited")
    assert ctl(node, "scan")[0] == 0

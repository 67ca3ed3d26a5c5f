# SPDX-License-Identifier: Apache-2.0
"""What operators see of a stale mount, on a node with an API server, Multus and real tokens: pods that do not start
because their CNI is told Unauthorized, or that start without it."""

import time
from collections.abc import Iterator

import pytest

from ostreewatchd.peers.cri.acts import RuntimeActs
from tests.lab import cluster, daemons, switch
from tests.lab.cluster import Cluster
from tests.lab.node import Node
from tests.lab.witness import (
    PATH_UNIT,
    REMEDIATION,
    WATCHER,
    ctl,
    facts,
    findings,
    fresh,
    healed,
    idle,
    instances,
    refused,
    stops,
    untouched,
)

pytestmark = pytest.mark.lab

UNHEALED = 12.0
"""Seconds after the switch without the product. With it a cure takes four."""
NAMES = ("kube-multus", "calico-node", "whereabouts")
RELEASE = "/usr/share/lab/release"


@pytest.fixture(scope="module")
def shared(built: None) -> Iterator[Cluster]:
    """One node for all tests of this module."""
    made = Cluster.boot()
    try:
        yield made
    finally:
        made.node.destroy()


@pytest.fixture
def node(shared: Cluster) -> Node:
    """Its node, whose journal a failed test shows."""
    return shared.node


@pytest.fixture
def writers(shared: Cluster, node: Node) -> list[str]:
    """Pods of Multus, of what stands in for Calico, and of whereabouts, on a healthy node that may have been switched
    before: new ones, for kubelet waits longer each time until it starts one of the old ones again; and containerd
    watches the directory that it has now."""
    for one in node.containers():
        if one.name in NAMES:
            shared.remove(one.pod, daemons.SYSTEM)
    node.sh(["systemctl", "restart", "containerd"])
    _product(node, "start")
    return [shared.start_writer(one()) for one in (daemons.multus, daemons.calico_node, daemons.whereabouts)]


def test_pods_start_again(shared: Cluster, node: Node, writers: list[str]) -> None:
    """After the switch the host has the token of a pod that was made anew meanwhile: no pod starts. Without the
    product it stays so; with it each writer is restarted once, and the next pod has its interface."""
    shared.start(daemons.plain("before"))
    node.wait(lambda: shared.interfaces("before"), 30, "a pod of a healthy node has its interface")
    _product(node, "stop")
    begun = switch.begin(node, node.commit({RELEASE: "1"}))
    writers[0] = _made_anew(shared, writers[0])
    before = instances(node, writers)
    begun.resume()
    host = shared.token(cluster.MULTUS)
    node.wait(lambda: not shared.accepts(host), 20, "the API server has forgotten the old pod's token")

    shared.start(daemons.plain("during"))
    _refused(shared, "during")
    wrong = [one for one in findings(node, "") if one["rule"] == "token-orphaned"]
    assert [(one["verdict"], one["path"]) for one in wrong] == [("wrong", cluster.MULTUS)]

    untouched(node, before, begun.mounted[-1] + UNHEALED - time.time())
    assert shared.token(cluster.MULTUS) == host
    assert not shared.accepts(host)
    assert not shared.interfaces("during")

    _product(node, "start")
    healed(node, before, writers)
    for file, pod in ((cluster.MULTUS, writers[0]), (cluster.WHEREABOUTS, writers[2])):
        assert shared.token(file) == shared.projected(before[pod].uid)
        assert shared.accepts(shared.token(file))
    calicos = shared.token(cluster.CALICO)
    assert cluster.claims(calicos)["iat"] >= int(begun.mounted[-1]), "asked for anew when it was restarted"
    assert not cluster.bound_to(calicos)
    assert shared.accepts(calicos)
    _next_pod_has_its_interface(shared, "after")
    assert ctl(node, "scan")[0] == 0
    untouched(node, instances(node, writers), 1.0)
    _says_no_token(node, [host, calicos, *(shared.token(one) for one in (cluster.MULTUS, cluster.WHEREABOUTS))])


def test_a_writer_is_deleted_while_the_remediation_is_at_work(shared: Cluster, node: Node, writers: list[str]) -> None:
    """`kubectl delete` of a pod that is still to be healed, when the first act has begun: what comes in its place has
    the new tree and is left alone, and each other writer is restarted once."""
    makers = {writers[1]: daemons.calico_node, writers[2]: daemons.whereabouts}
    _product(node, "stop")
    switch.begin(node, node.commit({RELEASE: "4"})).resume()
    before, begun = instances(node, writers), time.time()
    _product(node, "start")
    node.wait(lambda: stops(node, begun), 20, "the first act begins")
    deleted = next(name for name in makers if before[name].id not in stops(node, begun))
    shared.remove(deleted, daemons.SYSTEM)
    anew = shared.start_writer(makers[deleted]())

    others = [name for name in writers if name != deleted]
    node.wait(lambda: fresh(node, [anew, *others]) and idle(node), 60, "all are healed")
    after = instances(node, [anew, *others])
    assert {name: one.restarts for name, one in after.items()} == {anew: 0, **dict.fromkeys(others, 1)}
    asked = stops(node, begun)
    assert len(asked) == len(set(asked)), "nothing twice"
    assert set(asked) <= {one.id for one in before.values()}
    assert ctl(node, "scan")[0] == 0
    _next_pod_has_its_interface(shared, "after-the-deletion")


def test_a_lost_configuration_is_written_before_it_is_missed(shared: Cluster, node: Node, writers: list[str]) -> None:
    """The new tree lacks what Multus writes when it starts. Stopped at once, it does not clean up in the old tree,
    which is the one that containerd watches: at no time is it without Multus."""
    before = instances(node, writers)
    begun = switch.begin(node, node.commit({RELEASE: "2"}))
    node.sh(["rm", begun.pending + cluster.CONFIGURATION])
    begun.resume()
    shared.start(daemons.plain("meanwhile"))
    healed(node, before, writers)
    assert node.sh(["cat", cluster.CONFIGURATION]).stdout
    _next_pod_has_its_interface(shared, "lost-and-found")
    node.wait(lambda: shared.interfaces("meanwhile"), 30, "so has the one before")
    assert ctl(node, "scan")[0] == 0, "that containerd watches another directory is no reason to restart it"


def test_silent_bypass(shared: Cluster, node: Node, writers: list[str]) -> None:
    """As before, but somebody else has stopped Multus with grace: it cleans up in the old tree, containerd takes what
    is left for the whole, and does not see what Multus writes into the new one. Pods start without it and nobody
    complains, until containerd is started anew."""
    _product(node, "stop")
    multus, *others = writers
    begun = switch.begin(node, node.commit({RELEASE: "3"}))
    node.sh(["rm", begun.pending + cluster.CONFIGURATION])
    begun.resume()
    _stopped(node, multus, grace=10)
    node.wait(lambda: node.sh(["cat", cluster.CONFIGURATION]).stdout, 20, "Multus has written into the new tree")
    before = instances(node, writers)
    assert _starts_without_interface(shared, "bypassing")

    _product(node, "start")
    healed(node, before, others)
    assert _stale_watches(node) == [("containerd.service", "/etc/cni/net.d")]
    node.wait(lambda: refused(node, "no-lock"), 20, "the remediation says what is owed")
    said = ctl(node, "explain", "containerd.service")[1]
    assert "it has loaded cni-loopback, lab, and the directory names multus-cni-network first (00-multus.conf)" in said
    assert _starts_without_interface(shared, "still-bypassing"), "a restart of the runtime is a person's to order"
    node.sh(["systemctl", "restart", "containerd"])
    assert _stale_watches(node) == []
    assert facts(node, "plan")["refusals"] == []
    _next_pod_has_its_interface(shared, "no-bypass")


def test_account_made_anew(shared: Cluster, node: Node, writers: list[str]) -> None:
    """kubelet keeps the token of the account before: Multus is given it again after each restart of its container.
    Only a restart of kubelet brings another."""
    multus = writers[0]
    host = shared.token(cluster.MULTUS)
    shared.api.delete(f"{cluster.ACCOUNTS}/multus")
    shared.account("multus")
    node.wait(lambda: not shared.accepts(host), 20, "the API server has forgotten the old account's token")
    shared.start(daemons.plain("no-account"))
    _refused(shared, "no-account")

    begun = time.time()
    _stopped(node, multus, grace=0)
    node.wait(lambda: _written_at(node, cluster.MULTUS) > begun, 20, "Multus has written again")
    assert shared.token(cluster.MULTUS) == host
    explained = ctl(node, "explain", "kubelet.service")[1]
    assert "the API server refuses it, though its end is yet to come" in explained
    assert "restart kubelet's unit, and nothing smaller" in explained

    node.sh(["systemctl", "restart", "kubelet"])
    node.wait(lambda: shared.accepts(shared.token(cluster.MULTUS)), 60, "Multus has a token of the new account")
    assert "the API server refuses it" not in ctl(node, "explain", "kubelet.service")[1]
    _next_pod_has_its_interface(shared, "account")


def _product(node: Node, verb: str) -> None:
    units = [WATCHER, REMEDIATION, PATH_UNIT] if verb == "stop" else [PATH_UNIT, WATCHER]
    node.sh(["systemctl", verb, *units])


def _made_anew(shared: Cluster, multus: str) -> str:
    """Another pod in the place of Multus', as at each update of its DaemonSet; its name."""
    shared.remove(multus, daemons.SYSTEM)
    return shared.start_writer(daemons.multus())


def _stale_watches(node: Node) -> list[tuple[str, str]]:
    found = [one for one in facts(node, "scan")["findings"] if one["rule"] == "runtime-watch-stale"]
    return [(one["subject"]["unit"], one["path"]) for one in found]


def _stopped(node: Node, pod: str, grace: int) -> None:
    """By somebody who is not the product; returns when kubelet has started it again."""
    stopped = node.container(pod)
    with RuntimeActs.connect(f"{node.root}/run/containerd/containerd.sock", deadline=grace + 10.0) as runtime:
        runtime.stop_container(stopped.id, grace)
    node.wait(lambda: node.container(pod).id != stopped.id, 30, f"{pod} runs again")


def _written_at(node: Node, path: str) -> float:
    return float(node.sh(["stat", "--format=%.Y", path]).stdout)


def _says_no_token(node: Node, tokens: list[str]) -> None:
    """Nothing that the product wrote, keeps or prints has a part of one of these."""
    verbs = (
        ["snapshot", "save", "--output", "-"],
        ["tokens"],
        ["tokens", "--json"],
        ["scan"],
        ["explain"],
        ["history"],
        ["status", "--json"],
    )
    said = {" ".join(words): ctl(node, *words)[1] for words in verbs}
    files = "find /var/lib/ostreewatchd /run/ostreewatchd -type f -exec cat {} +"
    said["journal and files"] = node.sh(f"journalctl --output=export --unit='ostreewatchd*'; {files}").stdout
    assert "kube-multus" in said["snapshot save --output -"]
    assert WATCHER in said["journal and files"]
    parts = {part for token in tokens for part in token.split(".")}
    assert [where for where, text in said.items() if any(part in text for part in parts)] == []


def _refused(shared: Cluster, pod: str) -> None:
    """That pod cannot start, and says why: word for word what operators search for."""
    said = shared.node.wait(lambda: shared.events(pod, "FailedCreatePodSandBox"), 30, f"{pod} cannot start")
    assert 'plugin type="multus"' in said[0]
    assert said[0].endswith("error waiting for pod: Unauthorized")


def _next_pod_has_its_interface(shared: Cluster, pod: str) -> None:
    """By Multus' own account, and at the first try."""
    shared.start(daemons.plain(pod))
    found = shared.node.wait(lambda: shared.interfaces(pod), 30, f"{pod} has its interface")
    assert [(one["name"], one["interface"], one["default"]) for one in found] == [("lab", "eth0", True)]
    assert shared.events(pod, "AddedInterface")
    assert not shared.events(pod, "FailedCreatePodSandBox")


def _starts_without_interface(shared: Cluster, pod: str) -> bool:
    """It runs, nothing failed, and Multus was not asked."""
    shared.start(daemons.plain(pod))
    shared.node.wait(lambda: shared.node.containers(pod), 30, f"{pod} runs")
    failed = shared.events(pod, "FailedCreatePodSandBox")
    return not failed and not shared.interfaces(pod) and not shared.events(pod, "AddedInterface")

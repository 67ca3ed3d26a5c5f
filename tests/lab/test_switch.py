# SPDX-License-Identifier: Apache-2.0
"""A live switch on a real node is found and healed, once, with proof; and nothing else is touched."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab import pods
from tests.lab.node import Node
from tests.lab.switch import Switch
from tests.lab.witness import (
    CNI,
    MOUNTED,
    REMEDIATION,
    WATCHER,
    WRITERS,
    Instance,
    acts,
    ctl,
    facts,
    fresh,
    healed,
    instances,
    reaches_host,
    reports,
    start,
    start_writers,
    stops,
    untouched,
)

pytestmark = pytest.mark.lab

BYSTANDERS = ("host-root", "host-root-private", "etc-readonly", "lib-modules", "plain")
NOTED = {
    "host-root-private": {"/etc", "/usr", CNI},
    "etc-readonly": {"/etc", CNI},
    "lib-modules": {"/lib/modules", "/usr/lib/modules"},
}


@dataclass(frozen=True)
class Story:
    """A node that went through one in-service patch, and what was there before it."""

    node: Node
    before: dict[str, Instance]
    switch: Switch
    after: dict[str, Instance]


@pytest.fixture(scope="module")
def story(built: None) -> Iterator[Story]:
    """One patch, for all tests that only look at what came of it."""
    node = Node.create()
    try:
        node.boot()
        private = [{"name": "root-dir", "hostPath": "/", "mountPath": "/hostroot"}]
        before = start(
            node,
            pods.calico_node(),
            pods.kube_multus(),
            pods.host_root(),
            pods.pod("host-root-private", mounts=private),
            pods.etc_readonly(),
            pods.lib_modules(),
            pods.plain(host_network=False),
        )
        switch = node.in_service_patch()
        after = healed(node, before)
        yield Story(node, before, switch, after)
    finally:
        node.destroy()


def test_each_cni_writer_is_restarted_once_in_place(story: Story) -> None:
    """Invariants 6 and 7. kubelet counts one restart more, in the same pod and sandbox, and the ledger has the
    proof of each: nothing else was stopped."""
    for name in WRITERS:
        before, after = story.before[name], story.after[name]
        assert (before.restarts, after.restarts) == (0, 1)
        assert story.node.container(name).attempt == 1
        assert (after.uid, after.sandbox) == (before.uid, before.sandbox)
    assert acts(story.node) == [("calico-node", "cured"), ("kube-multus", "cured")], "in the platform's order"
    cured = reports(story.node, "cured")
    assert [one["OSTREEWATCHD_CONTAINER"] for one in cured] == ["calico-node", "kube-multus"]
    host = "{}:{}".format(*story.node.identity(CNI))
    assert all(host in one["OSTREEWATCHD_PROOF"] for one in cured)
    assert [one["OSTREEWATCHD_CONTAINER_ID"] for one in cured] == [story.before[name].id for name in WRITERS]


def test_mounts_of_the_restarted_are_the_new_deployments(story: Story) -> None:
    """Invariant 1: the same directory by device and inode, and the kernel's own line says which deployment."""
    node, new = story.node, Path(story.switch.pending).name
    for name in WRITERS:
        container = node.container(name)
        assert node.identity_in(container, MOUNTED) == node.identity(CNI)
        assert _mount_root(node, container.pid, MOUNTED).endswith(f"/{new}{CNI}")


def test_token_written_in_each_writer_is_read_on_the_host_at_once(story: Story) -> None:
    for name in WRITERS:
        assert reaches_host(story.node, name), name


def test_bystanders_are_untouched_and_the_stale_ones_noted(story: Story) -> None:
    """Invariant 5, and DESIGN §7: only what holds the CNI directory itself, writable, is restarted unasked."""
    node = story.node
    assert instances(node, BYSTANDERS) == {name: story.before[name] for name in BYSTANDERS}
    found = facts(node, "scan")["findings"]
    assert not [one for one in found if one["owed"]]
    stale = {name: {one["path"] for one in _of(found, node, name) if one["verdict"] == "stale"} for name in BYSTANDERS}
    for name, paths in NOTED.items():
        assert stale[name] and stale[name] <= paths, f"{name}: {stale[name]}"
        entries = [one for one in reports(node, "noted") if one.get("OSTREEWATCHD_CONTAINER") == name]
        assert entries, f"the journal does not note {name}"
        assert all(one["OSTREEWATCHD_POD_UID"] == story.before[name].uid for one in entries)
    # It follows the host's mounts (mountPropagation: HostToContainer); the other has no piece of the host.
    assert not stale["host-root"] and not stale["plain"]
    assert not {one.get("OSTREEWATCHD_CONTAINER") for one in reports(node, "noted")} & {"host-root", "plain", *WRITERS}


def test_status_agrees_with_findmnt_and_mountinfo(story: Story) -> None:
    """As an administrator checks by hand: the topmost mount of /etc on the host, the mount in the pod."""
    node = story.node
    status = facts(node, "status")
    by_hand = node.live("/etc")
    assert by_hand == Path(story.switch.pending).name
    assert status["live"]["deployment"] == f"debian-{by_hand}"
    assert status["live"]["usr"] == f"debian-{node.live('/usr')}"
    assert status["live"]["usr_class"] == "other-deployment"
    booted = [one for one in node.deployments() if one.booted][0]
    assert status["live"]["booted"] == f"debian-{booted.name}"
    for name in WRITERS:
        assert f"/{by_hand}/etc" in _mount_root(node, node.container(name).pid, MOUNTED)
    # And the one that stayed behind: both sides, with the numbers that stat(2) gives.
    mine = [one for one in _of(status["findings"], node, "etc-readonly") if one["path"] == "/etc"][0]
    assert mine["inside"] == "/host/etc"
    assert (mine["expected"]["dev"], mine["expected"]["ino"]) == node.identity("/etc")
    container = node.container("etc-readonly")
    assert (mine["actual"]["dev"], mine["actual"]["ino"]) == node.identity_in(container, "/host/etc")
    assert mine["expected"]["deployment"] == f"debian-{by_hand}"
    assert mine["actual"]["deployment"] == f"debian-{booted.name}"
    assert f"/{booted.name}/etc" in _mount_root(node, container.pid, "/host/etc")
    assert abs(status["live"]["since"] - story.switch.mounted[-1]) < 5, "when the switch was seen"
    code, text = ctl(node, "status")
    assert code == 0
    assert by_hand in text and booted.name in text and "0 owed" in text


def test_scan_json_is_whole_and_explain_shows_both_sides(story: Story) -> None:
    """Invariant 11."""
    node = story.node
    scan = facts(node, "scan")
    assert scan["node"] == node.name
    assert {"deployment", "usr_class", "since"} <= set(scan["live"])
    for one in scan["findings"]:
        assert {"rule", "verdict", "owed", "subject", "path", "expected", "actual", "reason", "remedy"} <= set(one)
        assert {"kind", "namespace", "pod", "pod_uid", "container", "container_id"} <= set(one["subject"])
        if one["subject"]["kind"] == "container":
            assert all({"dev", "ino", "deployment"} == set(one[side]) for side in ("expected", "actual"))
    code, text = ctl(node, "explain", f"etc-readonly-{node.name}")
    assert code == 0
    for path, side in ((node.identity("/etc"), "host has now"),):
        assert re.search(rf"{side} +{path[0]}:{path[1]} ", text), text
    seen = node.identity_in(node.container("etc-readonly"), "/host/etc")
    assert re.search(rf"container has +{seen[0]}:{seen[1]} ", text), text
    assert "stale-mount" in text and "23d2727" in text and "/host/etc" in text


def test_healed_without_credentials_and_without_network(story: Story) -> None:
    """What the story had: no kubeconfig on the node, a kubelet without one, and no way to anywhere."""
    node = story.node
    assert node.sh("find /etc/kubernetes /root/.kube /var/lib/kubelet -name '*.conf' -o -name '*kubeconfig*' -o "
                   "-name config 2>/dev/null", check=False).stdout == ""  # fmt: skip
    assert "kubeconfig" not in node.sh("tr '\\0' ' ' </proc/$(pidof kubelet)/cmdline").stdout
    assert node.sh("ip route show default; ip -6 route show default").stdout == ""
    assert node.sh("ip -br link | grep -Ev '^(lo|cni|veth)'", check=False).stdout == ""
    assert story.after["calico-node"].restarts == 1


def test_installed_enabled_and_started_by_systemd_alone(story: Story) -> None:
    """Nobody but systemd started any of it: the node's only command from outside was the patch."""
    node = story.node
    assert node.sh(["systemctl", "is-enabled", WATCHER]).stdout == "enabled\n"
    assert node.sh(["systemctl", "is-active", WATCHER]).stdout == "active\n"
    assert node.sh(["rpm", "-q", "ostreewatchd"]).stdout.startswith("ostreewatchd-")
    started = node.journal(unit=WATCHER, JOB_TYPE="start", JOB_RESULT="done")
    assert started and all(one["_PID"] == "1" for one in started)
    show = ["systemctl", "show", REMEDIATION, "-P", "Result", "-P", "ExecMainStatus"]
    assert node.sh(show).stdout.split() == ["success", "0"]


def test_watcher_follows_into_the_new_tree(story: Story) -> None:
    """DESIGN §4: the remediation's last act restarts a watcher that is itself stale; that one restarts nothing."""
    node, new = story.node, Path(story.switch.pending).name
    node.wait(lambda: len(reports(node, "started")) >= 2, 15, "a second watcher says that it watches")
    pid = int(node.sh(["systemctl", "show", "-P", "MainPID", WATCHER]).stdout)
    assert f"/{new}/usr" in _mount_root(node, pid, "/usr")
    assert node.sh(["systemctl", "show", "-P", "NRestarts", WATCHER]).stdout == "0\n", "in order, not by a crash"
    assert len(stops(node)) == len(WRITERS)


def test_second_patch_is_healed_in_turn_and_nothing_is_restarted_between(story: Story) -> None:
    """Invariant 6: once for each switch, and nothing without one. The last with this node: it moves on."""
    node, between = story.node, story.after
    asked = time.time()
    assert ctl(node, "remediate")[0] == 0, "a person's request finds nothing to do"
    untouched(node, between, seconds=1.5)
    assert instances(node, between) == between
    assert not stops(node, since=asked)

    second = node.in_service_patch()

    # kubelet itself waits 10 s before the second restart of a container (its back-off).
    after = healed(node, between, timeout=60)
    assert [after[name].restarts for name in WRITERS] == [2, 2]
    assert node.live("/etc") == Path(second.pending).name
    assert acts(node) == [("calico-node", "cured"), ("kube-multus", "cured")] * 2
    assert all(reaches_host(node, name) for name in WRITERS)


def test_reboot_required_patch_restarts_nothing_before_or_after_the_reboot(node: Node) -> None:
    before = start_writers(node)
    begun = time.time()
    commit = node.reboot_required_patch()
    entry = node.wait(lambda: reports(node, "pending"), 15, "the journal says that a deployment is pending")[0]
    assert commit in entry["OSTREEWATCHD_DEPLOYMENT"]
    assert "next reboot" in entry["MESSAGE"] and "nothing is restarted" in entry["MESSAGE"]
    untouched(node, before, seconds=1.5)
    assert instances(node) == before
    assert facts(node, "status")["live"]["pending"] == f"debian-{node.deployments()[0].name}"

    node.reboot()

    for name in WRITERS:
        node.wait_pod(name)
    booted = instances(node)
    assert fresh(node)
    assert facts(node, "status")["live"]["pending"] == ""
    untouched(node, booted, seconds=1.5)
    assert instances(node) == booted
    assert not [one for kind in ("intent", "owed", "switch", "refused") for one in reports(node, kind, since=begun)]
    assert not (node.disk.var / "lib/ostreewatchd/ledger.db").exists() or acts(node) == []


def test_started_only_after_the_switch(node: Node) -> None:
    before = start_writers(node)
    node.sh(["systemctl", "stop", WATCHER])
    node.in_service_patch()
    assert not fresh(node)
    untouched(node, before, seconds=1.0)
    node.sh(["systemctl", "start", WATCHER])
    healed(node, before)


def test_watcher_killed_during_the_switch(node: Node) -> None:
    """Invariant 2: the signals of the last mounts are lost, the result is the same."""
    before = start_writers(node)
    switch = node.in_service_patch(stop_after=1)
    node.kill(WATCHER)
    switch.resume(3)
    untouched(node, before)
    switch.resume()
    healed(node, before)
    assert node.sh(["systemctl", "is-active", WATCHER]).stdout == "active\n"


def _of(found: list[dict[str, Any]], node: Node, pod: str) -> list[dict[str, Any]]:
    return [one for one in found if one["subject"]["pod"] == f"{pod}-{node.name}"]


def _mount_root(node: Node, pid: int, point: str) -> str:
    """The root of the last mount at a place in a process's mountinfo, as a person greps for it."""
    lines = Path(node.root, "proc", str(pid), "mountinfo").read_text().splitlines()
    roots = [line.split()[3] for line in lines if line.split()[4] == point]
    assert roots, f"nothing is mounted on {point}"
    return roots[-1]

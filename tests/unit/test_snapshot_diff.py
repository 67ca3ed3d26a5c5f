# SPDX-License-Identifier: Apache-2.0
"""`snapshot diff A B`: each change is told once, in words, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from ostreewatchd.model import (
    Daemon,
    Inside,
    Node,
    Ostree,
    Pod,
    Problem,
    Settings,
    Snapshot,
    VmSandbox,
)
from ostreewatchd.replay.anonymize import anonymize
from ostreewatchd.replay.diff import diff
from tests.unit.worlds import BOOT, CNI, NEW, NEW_NAME, OLD, OLD_NAME, World, hex_id, stale, there, world


def changes(before: Snapshot, after: Snapshot) -> list[str]:
    """Without the first line."""
    return diff(before, after)[1:]


def replaced(snapshot: Snapshot, **what: Any) -> Snapshot:
    return msgspec.structs.replace(snapshot, **what)


def test_nothing() -> None:
    assert diff(stale().snapshot(), stale().snapshot()) == [
        "from node0 at 2027-01-15 08:00:00 UTC to node0 at 2027-01-15 08:00:00 UTC, 0 s later", "nothing changed",
    ]  # fmt: skip


ID = hex_id("calico-node-x1", "calico-node", 0)[:12]
NEXT = hex_id("calico-node-x1", "calico-node", 1)[:12]
WHO = "kube-system/calico-node-x1/calico-node"
FRESH = world().host(CNI, OLD).container("calico-node").bind(CNI, OLD)
DOCKER = Daemon(kind="runtime", name="containerd", pid=70, mount_namespace=1)
REASON = (
    "it shows deployment debian-aaaaaaaaaa.0, the host has debian-bbbbbbbbbb.0; what it writes there no longer reaches"
    " the host"
)


def part(**what: Any) -> Callable[[World], World]:
    return lambda built: built.part(**what)


ONE_CHANGE: dict[str, tuple[Callable[[World], World], list[str]]] = {
    "pending": (
        lambda built: built.live(deployments=msgspec.structs.replace(built.snapshot().live.deployments, pending="x")),
        ["pending: none became x"],
    ),
    "class": (lambda built: built.live(usr_class="sysext"), ["class of /usr: other-deployment became sysext"]),
    "mount": (lambda built: built.live(etc_mount="1 2 3"), ["mount of /etc: none became 1 2 3"]),
    "usr": (lambda built: built.live(usr_mount="1 2 3"), ["mount of /usr: none became 1 2 3"]),
    "directories": (
        part(cni_directories=(CNI, "/opt/cni")), [f"CNI directories: {CNI} became {CNI}, /opt/cni"],
    ),
    "elsewhere": (
        lambda built: built.host(CNI, msgspec.structs.replace(OLD, mount="1 2 3")),
        [f"host's {CNI} is on another mount: {OLD.mount} became 1 2 3"],
    ),
    "partial": (lambda built: built.live(partial="torn apart"), ["contradiction: none became torn apart"]),
    "fingerprint": (
        lambda built: built.live(fingerprint="x"),
        ["/usr, /etc or a watched directory is another mount or directory, of the same deployments"],
    ),
    "flag": (lambda built: built.flag("/run/f"), ["flag came: /run/f: under way"]),
    "kubelet": (lambda built: built.kubelet(problem="gone"), ["kubelet: well, process 900 became gone"]),
    "runtime": (lambda built: built.runtime(problem="silent"), ["runtime: answers became silent"]),
    "came": (
        lambda built: built.container("web", namespace="shop").bind("/usr", there(1)).host("/usr", there(1)),
        ["running containers: 1 became 2",
         f"came: shop/web-x1/web ({hex_id('web-x1', 'web', 0)[:12]}), started 2027-01-14 04:30:00 UTC"],
    ),
    "bind": (
        lambda built: built.bind("/usr", there(1)).host("/usr", there(1)),
        [f"{WHO} ({ID}): new bind /usr as /host/usr"],
    ),
    "act": (
        lambda built: built.act(outcome="cured", container_id="0" * 64),
        [f"act: 2027-01-15 07:59:30 UTC  switch s1  stop-container {WHO}  cured: p"],
    ),
    "problem": (
        part(problems=(Problem(where="/x", what="No such file"),)), ["not read any more: /x: No such file"],
    ),
    "daemon": (part(daemons=(DOCKER,)), ["runtime containerd: came"]),
    "machine": (
        part(vm_sandboxes=(VmSandbox(sandbox_id="s", pod=Pod(namespace="a", name="b", uid="c"), shim="kata"),)),
        ["pod in a virtual machine came: a/b"],
    ),
    "torn": (part(torn="moved"), ["torn look: none became moved"]),
    "mode": (part(settings=Settings(mode="observe")), ["mode: not known became observe"]),
    "unlocked": (part(ostree=Ostree(unlocked=("hotfix",))), ["ostree: unlocked: none became hotfix"]),
    "stamp": (part(ostree=Ostree(staged_is_locked=True)), ["ostree: staged is locked: no became yes"]),
    "inside": (
        part(ostree=Ostree(inside=(Inside(deployment="d", point="/d/etc", shows="/etc", writable=False),))),
        ["new mount inside a deployment: /d/etc shows /etc"],
    ),
    "file": (
        lambda built: built.host(CNI, msgspec.structs.replace(OLD, names=("10-calico.conflist", "x.conf"))),
        [f"host's {CNI}: new file x.conf"],
    ),
    "ledger": (lambda built: built.history(problem="it is locked"), ["ledger: readable became it is locked"]),
}  # fmt: skip
OPPOSITE = {
    "flag": ["flag went: /run/f: under way"],
    "problem": ["was not read, and is now: /x: No such file"],
    "daemon": ["runtime containerd: is gone"],
    "bind": [f"{WHO} ({ID}): bind /usr as /host/usr is gone"],
    "file": [f"host's {CNI}: file x.conf is gone"],
    "inside": ["gone mount inside a deployment: /d/etc shows /etc"],
    "stamp": ["ostree: staged is locked: yes became no"],
}


def fresh() -> World:
    return world().host(CNI, OLD).container("calico-node").bind(CNI, OLD)


@pytest.mark.parametrize("change", ONE_CHANGE)
def test_one_change_is_one_thing_said(change: str) -> None:
    make, says = ONE_CHANGE[change]
    before, after = fresh().snapshot(), make(fresh()).snapshot()
    if change not in ("torn", "partial", "machine"):  # Of these the judge has something to say, too.
        assert changes(before, after) == says
    else:
        assert says[0] in changes(before, after)
        return
    if change in OPPOSITE:
        assert changes(after, before) == OPPOSITE[change]


def test_a_switch_makes_it_stale() -> None:
    before = fresh().live(fingerprint="before").snapshot()
    assert changes(before, stale().snapshot()) == [
        "/usr, /etc or a watched directory is another mount or directory, of the same deployments",
        f"host's {CNI}: 65024:10347112 became 65024:10371999",
        f"became stale: owed: {WHO}: {CNI} as /host{CNI}: {REASON}",
    ]


def test_a_restart_makes_it_fresh() -> None:
    cured = world().host(CNI, NEW).container("calico-node", attempt=1, started=2000.0).bind(CNI, NEW)
    assert changes(stale().snapshot(), cured.snapshot()) == [
        f"restarted: {WHO} ({ID}) is {NEXT} now, attempt 1, started 2027-01-14 04:46:40 UTC",
        f"became fresh: {WHO}: {CNI} as /host{CNI}; it was owed: {WHO}: {CNI} as /host{CNI}: {REASON}",
    ]


def test_a_healed_bind_is_told_with_what_it_became() -> None:
    """HostToContainer: the same container, another directory in it."""
    healed = world().host(CNI, NEW).container("calico-node").bind(CNI, NEW)
    said = changes(stale().snapshot(), healed.snapshot())
    assert said[0] == f"{WHO} ({ID}): bind {CNI} as /host{CNI}: 65024:10347112 became 65024:10371999"
    assert said[1].startswith("became fresh: ") and len(said) == 2


def test_a_stale_one_goes_and_a_stale_one_comes() -> None:
    other = world().host(CNI, NEW).container("web", namespace="shop").bind(CNI, OLD).snapshot()
    said = changes(stale().snapshot(), other)
    assert said[0].startswith(f"gone: {WHO}") and said[1].startswith("came: shop/web-x1/web")
    assert said[2].startswith(f"finding ended with its subject: owed: {WHO}")
    assert said[3].startswith("new finding: owed: shop/web-x1/web") and len(said) == 4


def test_a_finding_that_is_another_now() -> None:
    readable = world().host(CNI, NEW).container("calico-node").bind(CNI, OLD, writable=False)
    (said,) = changes(stale().snapshot(), readable.snapshot())
    assert said.startswith(f"finding changed: noted: {WHO}") and "; it was owed: " in said


def test_a_runtime_that_was_restarted() -> None:
    again = msgspec.structs.replace(DOCKER, pid=71, mount_namespace=2)
    before, after = (fresh().part(daemons=(it,)).snapshot() for it in (DOCKER, again))
    assert changes(before, after) == [
        "runtime containerd: process: 70 became 71", "runtime containerd: mount namespace: 1 became 2",
    ]  # fmt: skip


def test_an_act_that_ends() -> None:
    before, after = (fresh().act(outcome=it, container_id="0" * 64).snapshot() for it in ("", "cured"))
    (said,) = changes(before, after)
    assert said.startswith("act ended: ") and said.endswith("cured: p")


def test_a_live_switch_of_deployments() -> None:
    names = msgspec.structs.replace(stale().snapshot().live.deployments, etc=OLD_NAME, usr=OLD_NAME)
    said = changes(stale().live(deployments=names).snapshot(), stale().snapshot())
    assert said == [f"live /usr: {OLD_NAME} became {NEW_NAME}", f"live /etc: {OLD_NAME} became {NEW_NAME}"]


def test_nameless_containers_are_not_taken_for_one_another() -> None:
    one = world().container("a").nameless().snapshot()
    two = world().container("b").nameless().snapshot()
    assert sorted(line.partition(":")[0] for line in changes(one, two)) == ["came", "gone"]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ({"node": Node(name="other", boot_id=BOOT, kernel="6.18", platform="generic")}, "these are different nodes"),
        ({"node": Node(name="node0", boot_id="x", kernel="6.18", platform="generic")}, "rebooted in between"),
        ({"node": Node(name="node0", boot_id=BOOT, kernel="7", platform="generic")}, "kernel: 6.18 became 7"),
        ({"taken_at": 1.0}, "goes back in time"),
        ({"product": "9"}, "ostreewatchd: 0 became 9"),
    ],
)
def test_what_is_compared_with_what(what: dict[str, Any], says: str) -> None:
    (said, nothing) = changes(stale().snapshot(), replaced(stale().snapshot(), **what))
    assert says in said and nothing == "nothing changed"


def test_an_original_is_not_compared_with_an_anonymized_one() -> None:
    """Each name is another one: all would have come and gone, on "different nodes"."""
    plain = stale().snapshot()
    other = anonymize(plain)
    for pair, which in (((plain, other), "second"), ((other, plain), "first")):
        (said,) = diff(*pair)[1:]
        assert said.startswith(f"not compared: the {which} is anonymized")
    assert any("names of its own" in line for line in diff(other, other))

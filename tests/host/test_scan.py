# SPDX-License-Identifier: Apache-2.0
"""A scan of real mount namespaces: who is found, with which identities, before and after an in-service patch."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import msgspec

from ostreewatchd.judge import judge
from ostreewatchd.model import (
    KubeletView,
    Plan,
    RuntimeContainer,
    RuntimePod,
    RuntimeView,
    Settings,
    Snapshot,
    SystemView,
)
from ostreewatchd.plan import plan
from tests.host.fakehost import CNI, NEW, OLD, Bind, FakeHost, bind, mount, show, umount, unshare_mounts
from tests.host.namespace import in_namespaces, needs_root

pytestmark = needs_root

HOST_CNI = f"/host{CNI}"


def verdicts(snapshot: Snapshot) -> dict[tuple[str, str], str]:
    """(container, host path) → owed, noted or unknown."""
    return {
        (one.subject.container, one.path): "owed" if one.owed else "noted" if one.verdict == "stale" else one.verdict
        for one in judge(snapshot)
    }


def answered(snapshot: Snapshot) -> Snapshot:
    """As if systemd, runtime and kubelet had been asked and all were well; each container a DaemonSet's."""
    labels = {"controller-revision-hash": "1", "pod-template-generation": "1"}
    pods = tuple(
        RuntimePod(
            sandbox_id=f"of {one.id}", namespace=one.pod.namespace, name=one.pod.name, uid=one.pod.uid, ready=True,
            labels=labels, annotations={},
        )
        for one in snapshot.containers
    )  # fmt: skip
    running = tuple(
        RuntimeContainer(id=one.id, sandbox_id=f"of {one.id}", name=one.name, attempt=0, running=True)
        for one in snapshot.containers
    )
    return msgspec.structs.replace(
        snapshot,
        system=SystemView(state="running"),
        kubelet=KubeletView(pid=1),
        runtime=RuntimeView(socket="x", pods=pods, containers=running),
    )


def number(path: str) -> tuple[int, int]:
    seen = os.stat(path)
    return seen.st_dev, seen.st_ino


@in_namespaces
def test_an_in_service_patch(tmp_path: Path) -> None:
    """The issue's node: two writers are owed, the stale rest is noted, the rest is fresh; whoever starts is fresh."""
    host = FakeHost(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.container("kube-multus", [Bind(CNI, HOST_CNI)], bundle=False, link=True)
    host.container("reader", [Bind(CNI, HOST_CNI, writable=False)])
    host.container("modules", [Bind("/usr/lib/modules", "/lib/modules", writable=False)])
    host.container("frozen-root", [Bind("/", "/rootfs")])
    host.container("following-root", [Bind("/", "/rootfs", propagated=True)])
    host.container("var", [Bind("/var", "/var")])
    host.container("nothing")
    before = host.look()
    assert judge(before) == (), judge(before)
    assert before.container_count == 8 and before.live.usr_class == "self"
    assert before.live.deployments.booted == f"debian-{OLD}.0"

    old = number(CNI)
    host.patch()
    host.container("late", [Bind(CNI, HOST_CNI)])
    after = host.look()
    show(after)
    assert verdicts(after) == {
        ("calico-node", CNI): "owed",
        ("kube-multus", CNI): "owed",
        ("reader", CNI): "noted",
        ("modules", "/usr/lib/modules"): "noted",
        ("frozen-root", "/usr"): "noted",
        ("frozen-root", "/etc"): "noted",
    }
    assert verdicts(host.look_anew()) == verdicts(after), "memory changes nothing"
    live = after.live
    assert (live.usr_class, live.partial) == ("other-deployment", "") and live.fingerprint != before.live.fingerprint
    assert live.deployments.etc == live.deployments.usr == f"debian-{NEW}.0"
    assert live.deployments.booted == f"debian-{OLD}.0"

    finding = next(one for one in judge(after) if one.subject.container == "calico-node")
    assert finding.expected is not None and finding.actual is not None
    assert (finding.expected.dev, finding.expected.ino) == number(CNI) != old
    assert (finding.actual.dev, finding.actual.ino) == old
    assert (finding.expected.deployment, finding.actual.deployment) == (f"debian-{NEW}.0", f"debian-{OLD}.0")
    multus = next(one.subject for one in judge(after) if one.subject.container == "kube-multus")
    assert (multus.namespace, multus.pod, multus.pod_uid) == (
        "kube-system", "kube-multus-x1", "uid-of-kube-multus-x1",
    )  # fmt: skip
    assert not after.problems


@in_namespaces
def test_what_other_pods_were_given_is_seen_by_way_of_the_root(tmp_path: Path) -> None:
    """Who has the host's `/` with HostToContainer receives kubelet's bind for another pod's subPath, and the root
    filesystem of another container with what was bound there: the host shows the same at the same paths. What is
    around the host's own bind of a file outside of /run and /var is compared with what the host has there."""
    host = FakeHost(tmp_path)
    subpath = "/var/lib/kubelet/pods/u/volume-subpaths/v/c/0"
    snap = "/var/snap/k8s/common/var/lib/kubelet/pods/u/volume-subpaths/v/c/0"
    rootfs = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/x/rootfs"
    Path("/etc/app.conf").write_text("old")
    Path(f"{host_tree(NEW)}/etc/app.conf").write_text("new")
    for path in (subpath, snap, "/opt/app.conf"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).touch()
        bind("/etc/app.conf", path)
    os.makedirs(rootfs)
    mount("tmpfs", rootfs, "tmpfs")
    os.mkdir(f"{rootfs}/cni")
    bind("/etc/cni", f"{rootfs}/cni")
    everything = [Bind("/", "/hostroot", propagated=True)]
    host.container("early", everything)
    host.container("its-own", [Bind(subpath, "/app.conf")])
    host.patch()
    host.container("late", everything)
    host.container("kubelets", [Bind("/var/lib/kubelet", "/k", propagated=True)])
    host.container("without-bundle", everything, bundle=False, link=True)
    host.container("changed-root", everything, body=lambda: os.chroot("/hostroot"))
    snapshot = host.look()
    assert verdicts(snapshot) == {("its-own", "/etc/app.conf"): "noted"}, judge(snapshot)
    assert verdicts(host.look_anew()) == verdicts(snapshot)
    umount(f"{rootfs}/cni")
    assert verdicts(host.look()) == verdicts(host.look_anew()) == {("its-own", "/etc/app.conf"): "noted"}


def host_tree(checksum: str) -> str:
    return f"/sysroot/ostree/deploy/debian/deploy/{checksum}.0"


@in_namespaces
def test_who_holds_what(tmp_path: Path) -> None:
    """Details that the plan relies on: writable, propagated, attempt, start, serials in the order of the mounts."""
    host = FakeHost(tmp_path)
    before = time.time()
    one = host.container("calico-node", [Bind(CNI, HOST_CNI), Bind("/usr", "/usr", False)], link=True)
    (found,) = host.look().containers
    assert (found.id, found.pid, found.attempt, found.sandbox_id) == (one.id, one.pid, one.attempt, "5" * 64)
    assert abs(found.started_at - before) < 5 and found.binder.pid == 1
    assert [(bind.path, bind.writable) for bind in found.binds] == [(HOST_CNI, True), ("/usr", False)]
    assert found.binds[0].sight.names == ("10-calico.conflist",)
    host.patch()
    snapshot = host.look()
    mine = snapshot.containers[0].binds[0].sight
    reference = snapshot.reference(CNI, snapshot.init_mount_namespace)
    assert reference is not None
    if mine.serial is not None:
        assert reference.sight.serial is not None and mine.serial < reference.sight.serial
    assert reference.sight.born_at is not None and reference.sight.names == ("10-calico.conflist",)


@in_namespaces
def test_a_restarted_container_is_fresh(tmp_path: Path) -> None:
    """Proof is the next look; and one that comes back with the old directory is an alarm and no step."""
    host = FakeHost(tmp_path)
    first = host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    assert verdicts(host.look()) == {("calico-node", CNI): "owed"}
    first.kill()
    assert verdicts(host.look()) == {}
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    snapshot = host.look()
    assert verdicts(snapshot) == {} and snapshot.container_count == 1
    assert plan(answered(snapshot), judge(snapshot), Settings()) == Plan()


@in_namespaces
def test_one_that_comes_back_with_the_old_directory(tmp_path: Path) -> None:
    """Invariant 6, by the kernel's own mount ids and births: started after the switch, so an alarm and no step."""
    host = FakeHost(tmp_path)
    os.makedirs("/tmp/aside")
    mount("/sysroot", "/tmp/aside", flags=0x1000)
    mount("none", "/tmp/aside", flags=1 << 18)  # Private: the patch must not reach it.
    before = host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    old = f"/tmp/aside/ostree/deploy/debian/deploy/{OLD}.0{CNI}"
    host.container("kube-multus", [Bind(old, HOST_CNI, says=CNI)])
    snapshot = host.look()
    show(snapshot)
    assert verdicts(snapshot) == {("calico-node", CNI): "owed", ("kube-multus", CNI): "owed"}
    made = plan(answered(snapshot), judge(snapshot), Settings())
    assert [one.subject.container_id for one in made.steps] == [before.id]
    (refusal,) = made.refusals
    assert refusal.name == "started-after-switch" and refusal.alarm


@in_namespaces
def test_a_second_patch_and_the_way_back(tmp_path: Path) -> None:
    """Each live state has a fingerprint of its own, also one that was there before."""
    host = FakeHost(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    seen = [host.look().live.fingerprint]
    host.patch()
    seen.append(host.look().live.fingerprint)
    host.patch()
    seen.append(host.look().live.fingerprint)
    assert len(set(seen)) == 3
    assert host.look().live.fingerprint == seen[-1], "nothing moved, nothing changed"


@in_namespaces
def test_half_a_patch_is_partial(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch(etc=False)
    snapshot = host.look()
    assert snapshot.live.partial and verdicts(snapshot) == {("", "/etc"): "wrong"}, "the host alone is what is wrong"
    host.patch(usr=False)
    assert not host.look().live.partial and verdicts(host.look()) == {("calico-node", CNI): "owed"}


@in_namespaces
def test_an_overlay_keeps_the_inode_and_changes_the_device(tmp_path: Path) -> None:
    """`ostree admin unlock`: never an inode without its device (invariant 1)."""
    host = FakeHost(tmp_path)
    host.container("modules", [Bind("/usr", "/usr", writable=False)])
    dev, ino = number("/usr")
    os.makedirs("/sysroot/.usr-ovl-upper")
    os.makedirs("/sysroot/.usr-ovl-work")
    options = "lowerdir=/usr,upperdir=/sysroot/.usr-ovl-upper,workdir=/sysroot/.usr-ovl-work"
    mount("overlay", "/usr", "overlay", data=options)
    snapshot = host.look()
    assert number("/usr")[0] != dev
    (finding,) = judge(snapshot)
    assert finding.verdict == "stale" and not finding.owed and finding.expected is not None
    assert finding.actual is not None and (finding.actual.dev, finding.actual.ino) == (dev, ino)
    assert (finding.expected.dev, finding.expected.ino) == number("/usr")
    assert snapshot.live.usr_class == "ostree-overlay"


@in_namespaces
def test_the_directory_is_replaced_by_rename(tmp_path: Path) -> None:
    """No mount at all: another identity, and the order is told by the directory's birth."""
    host = FakeHost(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.look()
    time.sleep(1.2)  # What lies closer together than clocks can tell is no order.
    os.rename(CNI, f"{CNI}.old")
    os.mkdir(CNI)
    snapshot = host.look()
    assert verdicts(snapshot) == {("calico-node", CNI): "owed", ("", f"{CNI}/10-calico.conflist"): "wrong"}
    made = plan(answered(snapshot), judge(snapshot), Settings())
    # What the old one had and the new one lacks stays in the way; that it was started before does not.
    assert [one.name for one in made.refusals] == ["cni-configuration-missing"]
    Path(f"{CNI}/10-calico.conflist").write_text("new")
    snapshot = host.look()
    assert len(plan(answered(snapshot), judge(snapshot), Settings()).steps) == 1


@in_namespaces
def test_the_old_directory_is_removed(tmp_path: Path) -> None:
    """`//deleted` in the line; the identity decides all the same."""
    host = FakeHost(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    old = f"/sysroot/ostree/deploy/debian/deploy/{OLD}.0"
    os.makedirs("/tmp/root-of-the-old")
    mount("/sysroot", "/tmp/root-of-the-old", flags=0x1000)
    below = "/tmp/root-of-the-old" + old.removeprefix("/sysroot") + CNI
    os.unlink(f"{below}/10-calico.conflist")
    os.rmdir(below)
    (finding,) = judge(host.look_anew())
    assert finding.owed and any("//deleted" in line for line in finding.evidence)


def runtime_apart(host: FakeHost, *, follows: bool) -> None:
    """A runtime in a mount namespace of its own (kubens; MountFlags=) that starts one container. `follows`: it still
    receives the host's mounts."""
    ready, tell = os.pipe()
    if os.fork() == 0:
        unshare_mounts()
        mount("none", "/", flags=0x4000 | (1 << 19 if follows else 1 << 18))
        host.container("calico-node", [Bind(CNI, HOST_CNI), Bind("/usr/lib/modules", "/lib/modules", writable=False)])
        os.write(tell, b"x")
        while True:
            signal.pause()
    assert os.read(ready, 1) == b"x"


@in_namespaces
def test_a_runtime_that_no_longer_sees_the_host(tmp_path: Path) -> None:
    """The reference is what the binder would bind; where PID 1 has another, a restart is useless and refused."""
    host = FakeHost(tmp_path)
    runtime_apart(host, follows=False)
    assert verdicts(host.look()) == {}
    host.patch()
    snapshot = host.look()
    assert verdicts(snapshot) == {("calico-node", CNI): "unknown", ("calico-node", "/usr/lib/modules"): "unknown"}
    assert {one.rule for one in judge(snapshot)} == {"runtime-namespace"}
    assert all("restarting it cures nothing" in one.reason for one in judge(snapshot))


@in_namespaces
def test_a_runtime_apart_that_follows_the_host(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    runtime_apart(host, follows=True)
    host.patch()
    snapshot = host.look()
    assert verdicts(snapshot) == {("calico-node", CNI): "owed", ("calico-node", "/usr/lib/modules"): "noted"}
    assert snapshot.containers[0].binder.mount_namespace != snapshot.init_mount_namespace


@in_namespaces
def test_no_container_of_kubelets(tmp_path: Path) -> None:
    """A sandbox, a service with a mount namespace of its own, a process in the host's: none of them is a subject."""
    host = FakeHost(tmp_path)
    pause = host.container("pause", [Bind(CNI, HOST_CNI)])
    host.write_bundle(pause.id, "pause", [], **{"container-type": "sandbox"})
    host.container("service", [Bind(CNI, HOST_CNI)], bundle=False, group="some.service")
    host.patch()
    assert verdicts(host.look()) == {} and host.look().containers == ()


@in_namespaces
def test_a_container_without_a_name_is_unknown_to_the_plan(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.container("x", [Bind(CNI, HOST_CNI)], bundle=False)
    host.patch()
    snapshot = host.look()
    (finding,) = judge(snapshot)
    assert finding.owed and not finding.subject.pod
    assert any("whose it is" in problem.what for problem in snapshot.problems)


@in_namespaces
def test_a_torn_bundle_is_a_problem_and_no_end(tmp_path: Path) -> None:
    """Invariant 12: the log link says whose it is."""
    host = FakeHost(tmp_path)
    one = host.container("calico-node", [Bind(CNI, HOST_CNI)], link=True)
    path = f"/run/containerd/io.containerd.runtime.v2.task/k8s.io/{one.id}/config.json"
    Path(path).write_text('{"mounts": [')
    host.patch()
    snapshot = host.look()
    assert verdicts(snapshot) == {("calico-node", CNI): "owed"}
    assert path in [problem.where for problem in snapshot.problems]


@in_namespaces
def test_hostile_log_links_name_nobody(tmp_path: Path) -> None:
    """Bad input: a pod name with newlines and escapes."""
    host = FakeHost(tmp_path)
    one = host.container("calico-node", [Bind(CNI, HOST_CNI)], bundle=False)
    os.symlink("/etc/passwd", f"/var/log/containers/a\n\x1b[31m_b_c-{one.id}.log")
    for index in range(50):
        Path(f"/var/log/containers/junk-{index}\udcff.log").write_text("x")
    host.patch()
    (finding,) = judge(host.look())
    assert finding.owed and finding.subject.pod == "" == finding.subject.container


@in_namespaces
def test_a_bind_that_a_later_one_hides(tmp_path: Path) -> None:
    """It was given the CNI directory, and then /etc over it: what it works with is seen by way of /etc (DESIGN §7)."""
    host = FakeHost(tmp_path)
    host.container("odd", [Bind(CNI, HOST_CNI), Bind("/etc", "/host/etc")])
    mount("tmpfs", CNI, "tmpfs")
    finding, missing = judge(host.look())
    assert (missing.rule, missing.path) == ("cni-config-missing", f"{CNI}/10-calico.conflist")
    assert (finding.path, finding.inside, finding.owed) == (CNI, HOST_CNI, False)
    assert "by way of /etc" in finding.reason

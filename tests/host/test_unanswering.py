# SPDX-License-Identifier: Apache-2.0
"""Invariant 8: a filesystem that may not answer is never stepped on, whether it is mounted at a path that is looked at
or a link leads there. The stand-in is FUSE without a server: one lookup in it and the test never ends."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from ostreewatchd.judge import judge
from ostreewatchd.model import RuntimeView, Snapshot
from ostreewatchd.observe import kubelet as kubelets
from ostreewatchd.observe.host import Host, platform_of
from ostreewatchd.parse.kubeletconfig import KubeletConfig
from ostreewatchd.peers.paths import MayNotAnswer
from tests.host.deadfs import DeadFilesystem, can_be_made, hangs
from tests.host.fakehost import CNI, Bind, FakeHost, mount, umount
from tests.host.namespace import in_namespaces, needs_root

pytestmark = [*needs_root, pytest.mark.skipif(not can_be_made(), reason="needs /dev/fuse")]

HOST_CNI = f"/host{CNI}"
DEAD = "/run/dead"


def dead_host(path: Path) -> tuple[FakeHost, DeadFilesystem]:
    """A host with one writer on it, and the dead filesystem at a place of its own."""
    dead = DeadFilesystem()
    host = FakeHost(path)
    os.mkdir(DEAD)
    dead.mount(DEAD)
    assert hangs(f"{DEAD}/x"), "the test's own premise"
    return host, dead


def looks(host: FakeHost) -> Snapshot:
    """With memory and without, each in a second; both see the same."""
    started = time.monotonic()
    snapshot, anew = host.look(), host.look_anew()
    assert time.monotonic() - started < 20
    assert [one.verdict for one in judge(snapshot)] == [one.verdict for one in judge(anew)]
    return snapshot


def told(snapshot: Snapshot) -> list[str]:
    """Where problems are that say why nothing was touched."""
    return [one.where for one in snapshot.problems if "fuse, which may not answer: not touched" in one.what]


@in_namespaces
def test_log_names(tmp_path: Path) -> None:
    host, dead = dead_host(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)], bundle=False, link=True)
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    dead.mount("/var/log/containers")
    host.patch()
    snapshot = looks(host)
    assert told(snapshot) == ["/var/log/containers"]
    assert sorted(one.subject.container for one in judge(snapshot) if one.owed) == ["", "kube-multus"]


@in_namespaces
def test_log_names_behind_a_link(tmp_path: Path) -> None:
    host, _ = dead_host(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)], bundle=False)
    os.rmdir("/var/log/containers")
    os.symlink(f"../..{DEAD}/containers", "/var/log/containers")
    assert told(looks(host)) == ["/var/log/containers"]


@in_namespaces
def test_bundles(tmp_path: Path) -> None:
    host, dead = dead_host(tmp_path)
    one = host.container("calico-node", [Bind(CNI, HOST_CNI)], link=True)
    dead.mount("/run/containerd/io.containerd.runtime.v2.task/k8s.io")
    host.patch()
    snapshot = looks(host)
    assert [one.id in where for where in told(snapshot)] == [True]
    assert [one.owed for one in judge(snapshot)] == [True], "the log link says whose it is"


@pytest.mark.parametrize("link", [False, True])
@in_namespaces
def test_a_watched_directory(tmp_path: Path, link: bool) -> None:
    """The container has it, the host has something else there: unknown, and nothing is owed."""
    host, dead = dead_host(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    if link:
        os.rename(CNI, f"{CNI}.old")
        os.symlink(f"{DEAD}/net.d", CNI)
    else:
        dead.mount(CNI)
    (finding,) = judge(looks(host))
    assert finding.verdict == "unknown" and not finding.owed
    assert "is fuse, which may not answer: not touched" in finding.reason


@in_namespaces
def test_a_watched_directory_of_the_container(tmp_path: Path) -> None:
    """It mounted that over what it was given: unknown."""
    _, dead = host_and_dead = dead_host(tmp_path)
    host = host_and_dead[0]

    def body() -> None:
        dead.mount(HOST_CNI)

    host.container("calico-node", [Bind(CNI, HOST_CNI)], body=body)
    host.patch()
    (finding,) = judge(looks(host))
    assert finding.verdict == "unknown" and "which may not answer" in finding.reason


@in_namespaces
def test_marks_flags_and_boot_entries(tmp_path: Path) -> None:
    """A flag that cannot be looked at counts as there; a mark and boot entries as not there."""
    host, dead = dead_host(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    os.rename("/boot", "/boot.old")
    for link in ("/etc/platform", "/boot", "/run/mount_pending"):
        os.symlink(f"{DEAD}/x", link)
    os.mkdir("/var/lib/rancher")
    dead.mount("/var/lib/rancher")
    snapshot = looks(host)
    assert [flag.path for flag in snapshot.flags] == ["/run/mount_pending"]
    assert snapshot.node.platform == "generic" and snapshot.live.deployments.pending == ""
    assert snapshot.container_count == 1


@in_namespaces
def test_manifests_and_kubeconfig(tmp_path: Path) -> None:
    dead_host(tmp_path)
    os.symlink(f"{DEAD}/kubernetes", "/etc/kubernetes")
    with Host() as host:
        kubelet = kubelets.Kubelet(1, 0, "/etc/kubernetes/kubelet.conf", KubeletConfig())
        view = kubelets.view(kubelet, host, platform_of(host.root), RuntimeView(socket=""))
        assert view.static_pods == ()
        assert "which may not answer" in kubelets._api_server_problem(host, kubelet.kubeconfig)


@in_namespaces
def test_a_covered_one_is_no_obstacle(tmp_path: Path) -> None:
    """As with an automount whose filesystem is mounted: the walk meets what is on top. And what the kernel itself
    answers is safe."""
    _, dead = dead_host(tmp_path)
    os.makedirs("/srv/x")
    dead.mount("/srv")
    mount("tmpfs", "/srv", "tmpfs")
    os.mkdir("/srv/x")
    with Host() as host:
        assert host.root.what("/srv/x").is_directory
        assert host.root.read("/proc/sys/kernel/random/boot_id", 64)
        umount("/srv")
        host.table_now()
        with pytest.raises(MayNotAnswer) as error:
            host.root.what("/srv/x")
        assert error.value.mount.point == "/srv" and "not touched" in str(error.value)


@in_namespaces
def test_it_comes_over_what_was_seen_before(tmp_path: Path) -> None:
    """In a container with so many mounts that what is at its paths tells whether it moved, and not its table."""
    dead = DeadFilesystem()
    host = FakeHost(tmp_path)

    def body() -> None:
        for number in range(700):
            os.makedirs(f"/mounts/{number:064}")
            mount("tmpfs", f"/mounts/{number:064}", "tmpfs")
        signal.signal(signal.SIGUSR1, lambda *_: dead.mount("/host/etc"))

    one = host.container("calico-node", [Bind("/etc", "/host/etc")], body=body)
    table = Path(f"/proc/{one.pid}/mountinfo")
    assert looks(host).containers and len(table.read_bytes()) > 64 << 10
    os.kill(one.pid, signal.SIGUSR1)
    while b" - fuse " not in table.read_bytes():
        time.sleep(0.01)
    (seen,) = looks(host).containers
    assert seen.binds == (), "what it sees now is its own"

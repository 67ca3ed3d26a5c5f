# SPDX-License-Identifier: Apache-2.0
"""Invariant 8: what hides a filesystem that may not answer, as an overlay does whose layer is one, is looked into by
a child process only, which is left behind when it does not come back."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from ostreewatchd.judge import judge
from ostreewatchd.model import Identity, Snapshot
from ostreewatchd.peers import aside
from ostreewatchd.peers.aside import Aside
from tests.host.deadfs import FadingFilesystem, can_be_made, hangs
from tests.host.fakehost import CNI, Bind, Container, FakeHost, mount, umount, unshare_mounts
from tests.host.namespace import in_namespaces, needs_root
from tests.host.pretend import pretend
from tests.scenarios.kit.confined import confine

pytestmark = [*needs_root, pytest.mark.skipif(not can_be_made(), reason="needs /dev/fuse")]

HOST_CNI = f"/host{CNI}"
SHORT = 0.4
"""Seconds for an answer that never comes."""


def overlay(fading: FadingFilesystem, target: str, *, keep: bool = False) -> Callable[[], None]:
    """What a container does: an overlay with the filesystem as a layer, which is then mounted nowhere any more."""

    def body() -> None:
        os.makedirs("/layer")
        os.makedirs("/other")
        fading.mount("/layer")
        mount("overlay", target, "overlay", 0, "lowerdir=/other:/layer")
        if not keep:
            umount("/layer")

    return body


def look(host: FakeHost) -> Snapshot:
    """By both kinds of looks, which say the same in time."""
    started = time.monotonic()
    snapshot, anew = host.look(), host.look_anew()
    assert time.monotonic() - started < 20
    assert told(snapshot) == told(anew)
    return snapshot


def told(snapshot: Snapshot) -> list[tuple[str, str, str, str]]:
    found = [(one.subject.container, one.inside, one.verdict, one.reason) for one in judge(snapshot)]
    print(*found, sep="\n")
    return found


def unknown(snapshot: Snapshot) -> dict[str, str]:
    """The reasons, by the path in the container."""
    return {path: reason for _, path, verdict, reason in told(snapshot) if verdict == "unknown"}


def owed(snapshot: Snapshot) -> list[str]:
    return [one.subject.container for one in judge(snapshot) if one.owed]


def children() -> list[int]:
    """All that were sent aside and are still there."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and (process / "comm").read_bytes() == aside.NAME + b"\n":
            found.append(int(process.name))
    return found


def within(seconds: float, condition: Callable[[], bool]) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def nobody_forks() -> None:
    def refuse() -> int:
        raise AssertionError("it forked")

    os.fork = refuse


@pytest.mark.parametrize("keep", [False, True])
@in_namespaces
def test_an_overlay_with_a_layer_that_does_not_answer(tmp_path: Path, keep: bool) -> None:
    """Over what it was given of the host: unknown, with the mount's name; the rest of the node is judged. Later looks
    ask nobody."""
    fading = FadingFilesystem("cni/net.d", silent="cni")
    host = FakeHost(tmp_path)
    evil = host.container("evil", [Bind("/etc", "/host/etc")], body=overlay(fading, "/host/etc", keep=keep))
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    host.aside.deadline = SHORT
    assert hangs(f"/proc/{evil.pid}/root/host/etc/cni"), "the test's own premise"
    for _ in range(2):
        snapshot = look(host)
        reasons = unknown(snapshot)
        assert list(reasons) == ["/host/etc", HOST_CNI]
        assert all("/host/etc is overlay, which does not answer" in one for one in reasons.values())
        assert owed(snapshot) == ["calico-node"]
    assert host.aside.children == 1
    fading.end()


@in_namespaces
def test_a_healthy_node_asks_here(tmp_path: Path) -> None:
    """Overlays as a runtime makes them for a container's root, and the host's own: the host has them, too."""
    host = FakeHost(tmp_path)
    rootfs = "/run/containerd/io.containerd.runtime.v2.task/k8s.io/x/rootfs"
    for folder in (rootfs, f"/run/image{HOST_CNI}", "/run/upper", "/run/work"):
        os.makedirs(folder)
    mount("overlay", rootfs, "overlay", 0, "lowerdir=/run/image,upperdir=/run/upper,workdir=/run/work")
    host.unlock()
    binds = [Bind(rootfs, "/new"), Bind(CNI, f"/new{HOST_CNI}"), Bind("/usr", "/new/usr")]
    one = host.container("calico-node", binds, bundle=False, link=True, body=lambda: os.chroot("/new"))
    assert b" / / rw" in Path(f"/proc/{one.pid}/mountinfo").read_bytes()
    nobody_forks()
    assert owed(look(host)) == []
    host.patch()
    assert owed(look(host)) == ["calico-node"] and not host.look().problems
    assert host.aside.children == 0


@in_namespaces
def test_an_overlay_of_its_own_that_answers(tmp_path: Path) -> None:
    """Judged as it is, also by who remembers, for as long as it answers; and no longer than that."""
    fading = FadingFilesystem("cni/net.d/10-a.conf")
    host = FakeHost(tmp_path)
    one = host.container("calico-node", [Bind("/etc", "/host/etc")], body=overlay(fading, "/host/etc"))
    os.rename(f"{CNI}/10-calico.conflist", f"{CNI}/10-a.conf")
    inside = f"/proc/{one.pid}/root{HOST_CNI}"
    for _ in range(2):
        snapshot = look(host)
        (container,) = snapshot.containers
        seen = {bind.path: bind.sight for bind in container.binds}
        there = os.stat(inside)
        assert seen[HOST_CNI].identity == Identity(dev=there.st_dev, ino=there.st_ino)
        assert seen[HOST_CNI].names == ("10-a.conf",)
        assert unknown(snapshot) == {} and not snapshot.problems
        assert [(path, verdict) for _, path, verdict, _ in told(snapshot)] == [("/host/etc", "stale")]
    assert children() == [], "each ends with the look that it was for"
    fading.stop_answering()
    host.aside.deadline = SHORT
    assert "which does not answer" in unknown(look(host))[HOST_CNI]
    fading.end()


@in_namespaces
def test_a_root_that_does_not_answer(tmp_path: Path) -> None:
    """It changed its root directory to what only it has."""
    fading = FadingFilesystem("host/etc/cni/net.d")
    host = FakeHost(tmp_path)
    made = overlay(fading, "/new")

    def body() -> None:
        os.mkdir("/new")
        made()
        mount("/given", f"/new{HOST_CNI}", flags=0x1000)
        os.chroot("/new")

    host.container("evil", [Bind(CNI, "/given")], body=body)
    assert unknown(look(host)) == {}
    fading.stop_answering()
    host.aside.deadline = SHORT
    host.patch()
    assert unknown(look(host)) == {HOST_CNI: f"in the container: {HOST_CNI}: / is overlay, which does not answer"}
    fading.end()


def in_a_namespace_of_its_own(start: Callable[[], None]) -> None:
    """A process with mounts that nobody else sees, which stays the parent of what it started."""
    ready, tell = os.pipe()
    if os.fork() == 0:
        try:
            unshare_mounts()
            mount("none", "/", flags=0x4000 | 1 << 18)
            start()
            os.write(tell, b"x")
            while True:
                signal.pause()
        except BaseException:  # noqa: BLE001 (the test's output has it)
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(tell)
    assert os.read(ready, 1) == b"x"
    os.close(ready)


@pytest.mark.parametrize("is_runtime", [True, False])
@in_namespaces
def test_a_runtime_in_a_namespace_of_its_own(tmp_path: Path, is_runtime: int) -> None:
    """kubens: the container's root is mounted there, and the host does not have it. Anybody else's is asked aside."""
    host = FakeHost(tmp_path)
    for folder in ("/tmp/rootfs", f"/tmp/image{HOST_CNI}", "/tmp/other"):
        os.makedirs(folder)

    def start() -> None:
        mount("overlay", "/tmp/rootfs", "overlay", 0, "lowerdir=/tmp/other:/tmp/image")
        binds = [Bind("/tmp/rootfs", "/new"), Bind(CNI, f"/new{HOST_CNI}")]
        host.container("calico-node", binds, bundle=False, link=True, body=lambda: os.chroot("/new"))
        if is_runtime:
            pretend("containerd")

    in_a_namespace_of_its_own(start)
    (container,) = look(host).containers
    assert container.binds[0].sight.identity is not None
    assert host.aside.children == (0 if is_runtime else 2), "one for each look"


@in_namespaces
def test_where_the_bind_was_made(tmp_path: Path) -> None:
    """In the mount namespace of who started the container, the path is not to be had."""
    fading = FadingFilesystem("cni/net.d")
    host = FakeHost(tmp_path)
    os.makedirs("/tmp/layers")

    def start() -> None:
        host.container("calico-node", [Bind(CNI, HOST_CNI)])
        os.chdir("/tmp/layers")
        os.makedirs("layer")
        os.makedirs("other")
        fading.mount("/tmp/layers/layer")
        mount("overlay", "/etc", "overlay", 0, "lowerdir=other:layer")

    in_a_namespace_of_its_own(start)
    (reference,) = [one for one in look(host).references if one.mount_namespace != host.look().init_mount_namespace]
    assert reference.sight.identity is not None
    fading.stop_answering()
    host.aside.deadline = SHORT
    snapshot = look(host)
    (reference,) = [one for one in snapshot.references if one.mount_namespace != snapshot.init_mount_namespace]
    assert "/etc is overlay, which does not answer" in reference.sight.problem


@in_namespaces
def test_they_are_few(tmp_path: Path) -> None:
    """However many do not answer: what waits and cannot be ended is bounded, also from one run to the next; and
    it holds nothing of who sent it."""
    fading = [FadingFilesystem("cni/net.d", silent="cni") for _ in range(5)]
    host = FakeHost(tmp_path)
    for number, one in enumerate(fading):
        host.container(f"evil-{number}", [Bind("/etc", "/host/etc")], body=overlay(one, "/host/etc"))
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    host.aside.deadline = SHORT
    theirs, ours = os.pipe()
    os.set_inheritable(ours, True)
    for _ in range(2):
        snapshot = look(host)
        assert owed(snapshot) == ["calico-node"]
        reasons = [reason for _, path, verdict, reason in told(snapshot) if path == HOST_CNI and verdict == "unknown"]
        assert sum("does not answer" in one and "asked" not in one for one in reasons) == aside.MOST_LEFT
        assert sum("was not asked, for too many others do not answer" in one for one in reasons) == 2
        assert len(children()) == host.aside.children == aside.MOST_LEFT
    os.close(ours)
    assert os.read(theirs, 1) == b"", "none of them has it"
    assert Aside().refuses("another run's") == "was not asked, for too many others do not answer"
    for pid in children():
        os.kill(pid, signal.SIGTERM)
    for one in fading:
        one.end()
    within(10, lambda: (host.aside.begin(), children())[1] == [])
    assert Aside().refuses("another run's") == ""


@in_namespaces
def test_its_end_is_not_waited_for(tmp_path: Path) -> None:
    """Who left one behind ends at once, and the one that was left as soon as it can."""
    fading = FadingFilesystem("cni/net.d", silent="cni")
    host = FakeHost(tmp_path)
    host.container("evil", [Bind("/etc", "/host/etc")], body=overlay(fading, "/host/etc"))
    host.aside.deadline = SHORT
    pid = os.fork()
    if pid == 0:
        try:
            host.look()
        finally:
            os._exit(0)
    within(20, lambda: os.waitpid(pid, os.WNOHANG) != (0, 0))
    (left,) = children()
    assert b") D " in Path(f"/proc/{left}/stat").read_bytes(), "it cannot be killed"
    fading.end()
    within(10, lambda: children() == [] or b") Z " in Path(f"/proc/{left}/stat").read_bytes())


@in_namespaces
def test_it_ends_with_who_sent_it(tmp_path: Path) -> None:
    """The watchdog kills the watcher: what then still waits and can be killed is."""
    fading = FadingFilesystem("cni/net.d")
    host = FakeHost(tmp_path)
    host.container("evil", [Bind("/etc", "/host/etc")], body=overlay(fading, "/host/etc"))
    fading.freeze()
    host.aside.deadline = 60.0
    pid = os.fork()
    if pid == 0:
        try:
            host.look()
        finally:
            os._exit(0)
    within(20, lambda: len(children()) == 1)
    (waits,) = children()
    time.sleep(0.3)  # It waits there by now; if not yet, it ends all the same.
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    within(20, lambda: os.waitpid(waits, os.WNOHANG) != (0, 0))


@in_namespaces
def test_as_confined_as_the_watcher(tmp_path: Path) -> None:
    """One that answers and one that does not, looked at by a user of its own with two capabilities."""
    answers, silent = FadingFilesystem("cni/net.d/10-a.conf"), FadingFilesystem("cni/net.d", silent="cni")
    host = FakeHost(tmp_path)
    good = host.container("good", [Bind("/etc", "/host/etc")], body=overlay(answers, "/host/etc"))
    evil = host.container("evil", [Bind("/etc", "/host/etc")], body=overlay(silent, "/host/etc"))
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            confine()
            os.write(write, repr(_by_container(look(host), good, evil)).encode())
        except BaseException:  # noqa: BLE001 (the parent shows it)
            os.write(write, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        assert file.read().decode() == repr(("", f"{HOST_CNI}: /host/etc is overlay, which does not answer"))


def _by_container(snapshot: Snapshot, *containers: Container) -> tuple[str, ...]:
    """What is wrong with what each sees at the CNI directory."""
    found = {(one.id, bind.path): bind.sight.problem for one in snapshot.containers for bind in one.binds}
    return tuple(found[one.id, HOST_CNI] for one in containers)

# SPDX-License-Identifier: Apache-2.0
"""Which process speaks for a container: its first one, and neither what it forked nor what was put into it."""

from __future__ import annotations

import ctypes
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from ostreewatchd.judge import judge
from ostreewatchd.observe import processes
from ostreewatchd.observe.host import Host, HostGone
from ostreewatchd.peers import proc
from tests.host.fakehost import CNI, NEW, Bind, FakeHost, bind, mount, unshare_mounts
from tests.host.namespace import in_namespaces, needs_root

pytestmark = needs_root

HOST_CNI = f"/host{CNI}"
_CLONE_NEWUSER, _CLONE_NEWNS = 0x10000000, 0x20000
_PR_CAPBSET_DROP, _CAP_SYS_ADMIN = 24, 21
_libc = ctypes.CDLL(None, use_errno=True)


def waits(prepare: Callable[[], None]) -> None:
    """Fork a process that prepares itself and then only waits; returns when it is ready."""
    ready, tell = os.pipe()
    if os.fork() == 0:
        os.close(ready)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        try:
            prepare()
            os.write(tell, b"x")
            os.closerange(3, 64)
            while True:
                signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    assert os.read(ready, 1) == b"x"
    os.close(ready)


def setns(fd: int, kind: int) -> None:
    if _libc.setns(fd, kind) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def owed(host: FakeHost) -> list[str]:
    """Containers that are owed a restart; the same with memory and without."""
    snapshot, anew = host.look(), host.look_anew()
    assert judge(snapshot) == judge(anew)
    assert [one.pid for one in snapshot.containers] == [one.pid for one in anew.containers]
    return [one.subject.container for one in judge(snapshot) if one.owed]


@in_namespaces
def test_a_child_that_changed_its_root(tmp_path: Path) -> None:
    """In the same mount namespace: it sees none of the binds. (Which is the first: tests/unit/test_processes.py.)"""
    host = FakeHost(tmp_path)

    def body() -> None:
        os.makedirs("/empty")
        waits(lambda: os.chroot("/empty"))

    one = host.container("calico-node", [Bind(CNI, HOST_CNI)], body=body)
    host.patch()
    assert owed(host) == ["calico-node"]
    snapshot = host.look()
    assert [found.pid for found in snapshot.containers] == [one.pid]
    assert snapshot.container_count == 1


@in_namespaces
def test_a_child_with_a_mount_namespace_of_its_own(tmp_path: Path) -> None:
    """What it mounts for itself heals nothing, and what it covers makes nothing stale."""
    host = FakeHost(tmp_path)
    new = f"/sysroot/ostree/deploy/debian/deploy/{NEW}.0{CNI}"

    def heals() -> None:
        unshare_mounts()
        bind("/new", HOST_CNI)

    def covers() -> None:
        unshare_mounts()
        mount("tmpfs", HOST_CNI, "tmpfs")

    binds = [Bind(CNI, HOST_CNI), Bind(new, "/new")]
    stale = host.container("calico-node", binds, body=lambda: waits(heals))
    host.patch()
    fresh = host.container("kube-multus", [Bind(CNI, HOST_CNI)], body=lambda: waits(covers))
    assert owed(host) == ["calico-node"]
    snapshot = host.look()
    assert [one.pid for one in snapshot.containers] == [stale.pid, fresh.pid] and snapshot.container_count == 2


@in_namespaces
def test_what_is_executed_in_it(tmp_path: Path) -> None:
    """A probe (its parent is the shim too) that came later and unshared: neither the first process nor a second
    container."""
    host = FakeHost(tmp_path)
    one = host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.write(f"{host.bundles}/{one.id}/init.pid", str(one.pid))
    host.look()

    def probe() -> None:
        host._join(one.id)
        fd = os.open(f"/proc/{one.pid}/ns/mnt", os.O_RDONLY)
        setns(fd, _CLONE_NEWNS)
        unshare_mounts()

    waits(probe)
    host.patch()
    assert owed(host) == ["calico-node"] and host.look().container_count == 1


@in_namespaces
def test_an_older_process_of_another_container_in_it(tmp_path: Path) -> None:
    """nsenter from a pod that sees all processes: the mount namespace has a process that is older than the
    container's own first one."""
    host = FakeHost(tmp_path)
    entered, go = os.pipe()
    done, tell = os.pipe()

    def body() -> None:
        if os.fork() == 0:
            os.closerange(max(entered, go, done, tell) + 1, 64)  # The parent waits for the end of a pipe.
            pid = int(os.read(entered, 16))
            setns(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY), _CLONE_NEWNS)
            os.write(tell, b"x")
            while True:
                signal.pause()

    debug = host.container("debug", [Bind("/proc", "/proc"), Bind("/etc", "/host/etc")], body=body)
    one = host.container("calico-node", [Bind(CNI, HOST_CNI)])
    os.write(go, str(one.pid).encode())
    assert os.read(done, 1) == b"x"
    host.patch()
    assert owed(host) == ["calico-node"]
    assert sorted(found.pid for found in host.look().containers) == sorted([debug.pid, one.pid])


@in_namespaces
def test_a_container_in_a_container(tmp_path: Path) -> None:
    """dind, or a container that names its own cgroups as it likes: one subject, judged by its own first process."""
    host = FakeHost(tmp_path)
    id = "d" * 64

    def inner() -> None:
        for group in ("", "/docker", f"/docker/{'e' * 64}"):
            host._join(id + group)
        unshare_mounts()

    one = host.container("dind", [Bind(CNI, HOST_CNI)], group=id, body=lambda: waits(inner))
    host.write_bundle(id, "dind", [Bind(CNI, HOST_CNI)])
    host.patch()
    assert owed(host) == ["dind"]
    (found,) = host.look().containers
    assert (found.id, found.pid) == (id, one.pid) and host.look().container_count == 1
    one.kill()
    (found,) = host.look().containers
    assert found.id == id, "until it has ended too, what lives on is all that there is"


@in_namespaces
def test_one_that_changed_its_root_to_the_hosts(tmp_path: Path) -> None:
    """chroot /host, as programs do that manage a node: what it works on is the tree at its root now."""
    host = FakeHost(tmp_path)
    body = lambda: os.chroot("/host")  # noqa: E731
    os.mkdir("/run/other")
    host.container("frozen", [Bind("/", "/host"), Bind("/run/other", "/usr")], body=body)
    host.container("follows", [Bind("/", "/host", propagated=True)], body=body)
    assert judge(host.look()) == ()
    host.patch()
    found = {(one.subject.container, one.path, one.inside) for one in judge(host.look()) if one.verdict == "stale"}
    assert found == {("frozen", "/usr", "/usr"), ("frozen", "/etc", "/etc")}
    assert owed(host) == []


@in_namespaces
def test_a_user_namespace(tmp_path: Path) -> None:
    """hostUsers: false. Root in it is nobody outside, its mount namespace is owned by another user namespace."""
    user, pid = user_namespace()
    host = FakeHost(tmp_path)

    def body() -> None:
        setns(user, _CLONE_NEWUSER)
        os.setgroups([])
        os.setgid(0)
        os.setuid(0)
        unshare_mounts()

    one = host.container("calico-node", [Bind(CNI, HOST_CNI)], body=body)
    assert Path(f"/proc/{one.pid}/uid_map").read_text().split() == ["0", "100000", "65536"]
    assert os.stat(f"/proc/{one.pid}").st_uid == 100000
    (found,) = host.look().containers
    assert found.binds[0].sight.identity is not None and not host.look().problems
    host.patch()
    assert owed(host) == ["calico-node"]
    os.kill(pid, signal.SIGKILL)


def user_namespace() -> tuple[int, int]:
    """One that is mapped to 100000 and up, as kubelet does it; made before the root directory is changed, for a
    process with another root than its mount namespace may not make one (user_namespaces(7))."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        assert _libc.unshare(_CLONE_NEWUSER) == 0
        os.write(tell, b"x")
        while True:
            signal.pause()
    os.read(ready, 1)
    for name in ("uid_map", "gid_map"):
        Path(f"/proc/{pid}/{name}").write_text("0 100000 65536")
    return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY), pid


@pytest.mark.parametrize("hides", ["1", "2", "4"])
@in_namespaces
def test_hidden_processes(tmp_path: Path, hides: str) -> None:
    """With CAP_SYS_PTRACE all is seen; without it that is an error which names the option and the capability, and
    never a node on which nothing runs."""
    host = FakeHost(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    mount("proc", "/proc", "proc", 0x20, f"hidepid={hides}")
    host.patch()
    assert owed(host) == ["calico-node"]
    watcher = os.fork()
    if watcher == 0:
        status = 1
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            try:
                Host()
            except HostGone as error:
                assert "CAP_SYS_PTRACE" in str(error), error
                assert hides != "2" or "hidepid=" in str(error), error
                status = 0
        except BaseException:  # noqa: BLE001 (the parent shows it)
            traceback.print_exc()
        finally:
            os._exit(status)
    assert os.waitpid(watcher, 0)[1] == 0


def told(host: FakeHost) -> list[tuple[str, bool]]:
    """Verdicts, and whether they are owed; without memory and with it the same. What is not known is said."""
    for snapshot in (host.look(), host.look(), host.look_anew()):
        assert judge(snapshot) == judge(host.look_anew())
        assert judge(snapshot) or snapshot.problems
    return [(one.verdict, one.owed) for one in judge(snapshot)]


@in_namespaces
def test_a_process_that_somebody_else_put_into_its_cgroup(tmp_path: Path) -> None:
    """It is older and stale; the runtime's own note says which one is the container. A note of no process of the
    container's says nothing: then it is not known, and nothing is owed."""
    host = FakeHost(tmp_path)
    id, binds = "c" * 64, [Bind(CNI, HOST_CNI)]
    host.write_bundle(id, "calico-node", binds)
    host.container("older", binds, group=id, bundle=False)
    host.patch()
    one = host.container("calico-node", binds, group=id, bundle=False)
    assert told(host) == [("unknown", False)], "no note"
    host.write(f"{host.bundles}/{id}/init.pid", "1")
    assert told(host) == [("unknown", False)], "a note of somebody else"
    host.write(f"{host.bundles}/{id}/init.pid", str(one.pid))
    assert owed(host) == [] and [found.pid for found in host.look().containers] == [one.pid]


@pytest.mark.parametrize("order", ["seen alone", "never seen alone"])
@in_namespaces
def test_a_stranger_that_was_there_before_the_container(tmp_path: Path, order: str) -> None:
    """It holds nothing of the host's tree, and hides nothing: neither from a look that judged it while it was alone
    nor from one that finds both. Where no note tells, that is said."""
    host = FakeHost(tmp_path)
    id, binds = "c" * 64, [Bind(CNI, HOST_CNI)]
    stranger = host.container("stranger", [], group=id, bundle=False)
    if order == "seen alone":
        assert host.look().container_count == 1
    host.write_bundle(id, "calico-node", binds)
    one = host.container("calico-node", binds, group=id, bundle=False)
    host.patch()
    assert told(host) == [], "no note"
    assert any("which of the processes" in problem.what for problem in host.look().problems)
    host.write(f"{host.bundles}/{id}/init.pid", str(one.pid))
    assert owed(host) == ["calico-node"]
    snapshot = host.look()
    assert [found.pid for found in snapshot.containers] == [one.pid] and snapshot.container_count == 1
    assert snapshot.problems == ()
    stranger.kill()
    assert owed(host) == ["calico-node"]
    one.kill()
    assert host.look().container_count == 0


@in_namespaces
def test_a_stranger_in_the_place_of_the_container(tmp_path: Path) -> None:
    """The container's first process was put elsewhere, so that a stale stranger is all that is in its cgroup."""
    host = FakeHost(tmp_path)
    id, binds = "c" * 64, [Bind(CNI, HOST_CNI)]
    host.write_bundle(id, "calico-node", binds)
    host.container("stranger", binds, group=id, bundle=False)
    host.patch()
    assert told(host) == [("stale", True)], "the test's own premise"
    one = host.container("calico-node", binds, bundle=False)
    host.write(f"{host.bundles}/{id}/init.pid", str(one.pid))
    assert [finding.verdict for finding in judge(host.look_anew())] == ["unknown"]
    one.kill()
    assert [finding.verdict for finding in judge(host.look_anew())] == ["stale"], "a note of nobody says nothing"


@in_namespaces
def test_probes(tmp_path: Path) -> None:
    """They come every few seconds, their parent is the shim. Whatever a look finds of them, there is no other finding
    and no problem, and once they were judged, nothing is read for them."""
    host = FakeHost(tmp_path)
    one = host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    assert owed(host) == ["calico-node"]

    def probe() -> None:
        host._join(one.id)
        setns(os.open(f"/proc/{one.pid}/ns/mnt", os.O_RDONLY), _CLONE_NEWNS)
        os.chroot(f"/proc/{one.pid}/root")

    for note in ("", str(one.pid)):
        if note:
            host.write(f"{host.bundles}/{one.id}/init.pid", note)
        for stage in (lambda: host._join(one.id), probe):
            waits(stage)
            assert owed(host) == ["calico-node"]
            assert [(found.pid, found.id) for found in host.look().containers] == [(one.pid, one.id)]
            assert host.look().problems == host.look_anew().problems == ()
    asked: list[object] = []
    setattr(processes, "_first", asked.append)  # noqa: B010
    waits(probe)
    assert host.look().containers[0].pid == one.pid and not asked, "which is the first is not asked anew"


@in_namespaces
def test_a_first_process_that_moves(tmp_path: Path) -> None:
    """To a copy of its mounts, in which it covers what it was given; and, where it may, to other mounts. Who may not
    and holds nothing of the host is not asked at each look whether it moved."""
    host = FakeHost(tmp_path)

    def weak() -> None:
        assert _libc.prctl(_PR_CAPBSET_DROP, _CAP_SYS_ADMIN, 0, 0, 0) == 0

    def moves(prepare: Callable[[], None], move: Callable[[], None]) -> Callable[[], None]:
        def body() -> None:
            signal.signal(signal.SIGUSR1, lambda *_: move())
            prepare()

        return body

    def covers() -> None:
        unshare_mounts()
        mount("tmpfs", HOST_CNI, "tmpfs")
        os.mkdir("/moved")

    def enters() -> None:
        setns(mounts, _CLONE_NEWNS)
        os.chroot(f"{tmp_path}/root")
        unshare_mounts()
        os.mkdir("/tmp/entered")

    mounts = os.open("/proc/1/ns/mnt", os.O_RDONLY)
    asked: list[int] = []
    original = proc.mount_namespace
    holder = host.container("holder", [Bind(CNI, HOST_CNI)], body=moves(weak, covers))
    strong = host.container("strong", [], body=moves(lambda: None, enters))
    idle = host.container("idle", [], body=weak)
    host.look()

    number = original(strong.pid)

    def ask(pid: int) -> int | None:
        asked.append(pid)
        # The number of the one that it left is free, and is often the new one's.
        return number if pid == strong.pid else original(pid)

    setattr(proc, "mount_namespace", ask)  # noqa: B010
    setattr(processes, "_BECOMES_WITHIN", 0.0)  # noqa: B010
    host.look()
    asked.clear()
    host.look()
    assert {holder.pid, strong.pid} <= set(asked) and idle.pid not in asked
    host.patch()
    assert owed(host) == ["holder"]
    os.kill(strong.pid, signal.SIGUSR1)
    os.kill(holder.pid, signal.SIGUSR1)
    for made in (f"/proc/{holder.pid}/root/moved", "/tmp/entered"):
        while not os.path.exists(made):
            time.sleep(0.01)
    assert owed(host) == []
    assert {one.name for one in host.look().containers} == {"holder", "strong"}

# SPDX-License-Identifier: Apache-2.0
"""Processes that come and go under the scan, that may not be read, and whose pid is used again."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from ostreewatchd.judge import judge
from ostreewatchd.observe.host import Host, HostGone
from ostreewatchd.observe.processes import Processes
from ostreewatchd.peers import proc
from tests.host.fakehost import CNI, Bind, FakeHost, unshare_mounts
from tests.host.namespace import in_namespaces, needs_root

pytestmark = needs_root

HOST_CNI = f"/host{CNI}"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def child(*, namespace: bool = True) -> int:
    """A process that only waits; with a mount namespace of its own."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        if namespace:
            unshare_mounts()
        os.closerange(3, 64)
        while True:
            signal.pause()
    os.close(tell)
    os.read(ready, 1)
    os.close(ready)
    return pid


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@in_namespaces
def test_processes_vanish_during_a_scan(tmp_path: Path) -> None:
    """Invariant 12: hundreds start and end under thirty looks; the one that stays is found in each."""
    host = FakeHost(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    churner = os.fork()
    if churner == 0:
        while True:
            one = os.fork()
            if one == 0:
                unshare_mounts()
                os._exit(0)
            os.waitpid(one, 0)
    before = None
    until = time.monotonic() + 3
    looks = 0
    while time.monotonic() < until or looks < 30:
        looks += 1
        findings = judge(host.look())
        assert [one.subject.container for one in findings if one.owed] == ["calico-node"], findings
        if looks == 10:
            before = descriptors()
    end(churner)
    host.look()
    assert before is not None and descriptors() <= before + 4, "no descriptor is left behind"


@in_namespaces
def test_a_container_that_ends_under_the_scan(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    host.patch()
    for round in range(12):
        one = host.container("calico-node", [Bind(CNI, HOST_CNI)])
        if round % 2:
            host.look()
        killer = os.fork()
        if killer == 0:
            time.sleep(0.001 * round)
            os.kill(one.pid, signal.SIGKILL)
            os._exit(0)
        for _ in range(10):
            assert judge(host.look()) == ()
        os.waitpid(killer, 0)
        os.waitpid(one.pid, 0)
        assert host.look().containers == ()


@in_namespaces
def test_a_zombie_is_no_container(tmp_path: Path) -> None:
    """It is in the list of pids and has neither mounts nor a root."""
    host = FakeHost(tmp_path)
    one = host.container("calico-node", [Bind(CNI, HOST_CNI)])
    other = host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.look()
    os.kill(one.pid, signal.SIGKILL)
    os.kill(other.pid, signal.SIGKILL)
    time.sleep(0.1)
    assert host.look().containers == () == host.look_anew().containers


@in_namespaces
def test_a_pid_is_used_again(tmp_path: Path) -> None:
    """Memory is of the process and not of its number: what was judged of the first must not stick to the second."""
    host = FakeHost(tmp_path)
    first = host.container("calico-node", [Bind(CNI, HOST_CNI)])
    snapshot = host.look()
    assert [one.id for one in snapshot.containers] == [first.id]
    host.patch()
    first.kill()
    last = Path("/proc/sys/kernel/ns_last_pid")

    last.write_text(str(first.pid - 1))
    second = host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    assert second.pid == first.pid, "the test's own premise"
    snapshot = host.look()
    assert [(one.id, one.name) for one in snapshot.containers] == [(second.id, "kube-multus")]
    assert judge(snapshot) == ()

    second.kill()
    last.write_text(str(first.pid - 1))
    plain = child(namespace=False)
    assert plain == first.pid
    assert host.look().container_count == 0
    end(plain)
    last.write_text(str(first.pid - 1))
    third = host.container("whereabouts", [Bind(CNI, HOST_CNI)])
    assert third.pid == first.pid
    assert [one.id for one in host.look().containers] == [third.id]


@in_namespaces
def test_the_first_process_ends_and_another_lives_on(tmp_path: Path) -> None:
    """A container is its mount namespace: it is found again by those who stay."""
    host = FakeHost(tmp_path)

    def body() -> None:
        helper = os.fork()
        if helper == 0:
            os.closerange(3, 64)  # The parent waits for the end of a pipe.
            while True:
                signal.pause()

    one = host.container("calico-node", [Bind(CNI, HOST_CNI)], body=body)
    assert [found.pid for found in host.look().containers] == [one.pid]
    os.kill(one.pid, signal.SIGKILL)
    os.waitpid(one.pid, 0)
    host.patch()
    snapshot = host.look()
    (found,) = snapshot.containers
    assert found.id == one.id and found.pid != one.pid
    assert [finding.owed for finding in judge(snapshot)] == [True]


@in_namespaces
def test_many_looks_hold_no_more(tmp_path: Path) -> None:
    """Invariant 8: a warm look opens nothing that stays open."""
    host = FakeHost(tmp_path)
    for number in range(8):
        host.container(f"c{number}", [Bind(CNI, HOST_CNI)])
    host.look()
    before = descriptors()
    for _ in range(20):
        assert host.look().container_count == 8
    assert descriptors() == before


def as_nobody() -> None:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


@in_namespaces
def test_a_process_that_may_not_be_read(tmp_path: Path) -> None:
    """Bad input: it is a problem with its reason, and the rest holds."""
    host = FakeHost(tmp_path)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    me = os.getpid()
    watcher = os.fork()
    if watcher == 0:
        status = 1
        try:
            opened = Host()
            as_nobody()
            found, problems = Processes(remember=False).look(opened)
            assert found == [], found
            assert {f"process {me}"} <= {one.where for one in problems}
            assert all("Permission denied" in one.what for one in problems), problems
            try:
                proc.mount_namespace(1)
            except proc.Unreadable as error:
                assert "/proc/1/ns/mnt" in error.what
            else:
                raise AssertionError("PID 1 could be read")
            try:
                Host()
            except HostGone as error:
                assert "CAP_SYS_PTRACE" in str(error)
            else:
                raise AssertionError("the host could be looked at")
            status = 0
        finally:
            os._exit(status)
    _, ended = os.waitpid(watcher, 0)
    assert ended == 0


@in_namespaces
def test_what_proc_says_of_who_is_not_there(tmp_path: Path) -> None:
    """None, and no error, from each reader: a process may vanish between any two lines."""
    gone = child()
    end(gone)
    assert proc.mount_namespace(gone) is None
    assert proc.read(gone, "mountinfo") is None and proc.stat(gone) is None and proc.root(gone) is None
    assert proc.command_line(gone) == () and gone not in proc.pids()
    assert list(proc.named("no-such-command")) == []
    here = child()
    stat = proc.stat(here)
    assert stat is not None and stat.parent == os.getpid()
    assert proc.mount_namespace(here) != proc.mount_namespace(1)
    assert here in proc.pids() and here in list(proc.named(stat.command))
    end(here)
    assert abs(proc.boot_epoch() + proc.boottime() - time.time()) < 1

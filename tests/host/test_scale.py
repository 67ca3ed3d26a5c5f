# SPDX-License-Identifier: Apache-2.0
"""A thousand pods, one that comes and goes ten times a second, and one that does what it can to be missed, to hide
others, or to make a look take for ever."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import time
from pathlib import Path

from ostreewatchd.judge import judge
from ostreewatchd.model import Snapshot
from tests.host import clone
from tests.host.fakehost import CNI, NEW, Bind, Container, FakeHost, bind, mount
from tests.host.namespace import cgroup_roots, in_namespaces, needs_root, token

pytestmark = needs_root

HOST_CNI = f"/host{CNI}"
PODS, BINDS = 1000, 50_000
_REC, _PRIVATE, _SLAVE = 0x4000, 1 << 18, 1 << 19


def pod(top: int, number: int) -> str:
    """A container the quick way, in the unified hierarchy; each tenth has the CNI directory. Its id."""
    id = hashlib.sha256(str(number).encode()).hexdigest()
    os.mkdir(f"{token()}/{id}", dir_fd=top)
    group = os.open(f"{token()}/{id}", os.O_PATH | os.O_DIRECTORY, dir_fd=top)
    ready, tell = os.pipe()
    if clone.clone(clone.NEWNS, cgroup=group) == 0:
        mount("none", "/", flags=_REC | _SLAVE)
        mount("tmpfs", "/tmp", "tmpfs", data="size=64k")
        if number % 10 == 0:
            os.makedirs(f"/tmp{HOST_CNI}")
            bind(CNI, f"/tmp{HOST_CNI}")
        mount("none", "/tmp", flags=_REC | _PRIVATE)
        os.chroot("/tmp")
        os.closerange(3, 64)
        while True:
            signal.pause()
    os.close(tell)
    os.read(ready, 1)
    os.close(ready)
    os.close(group)
    return id


def malicious() -> None:
    """Fifty thousand binds of the host's directory, at names that are hard to read."""
    for folder in range(50):
        name = f"/{folder} \n\\040 //deleted"
        os.makedirs(name)
        for number in range(BINDS // 50):
            os.mkdir(f"{name}/{number}")
            bind(HOST_CNI, f"{name}/{number}")
    os.symlink("loop", "/loop")


def stale(snapshot: Snapshot) -> set[str]:
    return {one.subject.container_id for one in judge(snapshot) if one.verdict == "stale" and one.owed}


def come_and_go(host: FakeHost) -> int:
    """Ten times a second a container with the CNI directory."""
    child = os.fork()
    while child == 0:
        one: Container = host.container("flapping", [Bind(CNI, HOST_CNI)])
        time.sleep(0.05)
        one.kill()
        time.sleep(0.05)
    return child


@in_namespaces
def test_a_thousand_pods_and_some_that_are_no_friends(tmp_path: Path) -> None:
    tops = [root for root in (*cgroup_roots(), Path("/sys/fs/cgroup/unified")) if (root / "cgroup.procs").exists()
            and (root / "cgroup.subtree_control").exists()]  # fmt: skip
    top = os.open(tops[0], os.O_RDONLY | os.O_DIRECTORY)
    os.makedirs(tops[0] / token(), exist_ok=True)
    host = FakeHost(tmp_path)
    ids = [pod(top, number) for number in range(PODS)]
    honest = {id for number, id in enumerate(ids) if number % 10 == 0}
    evil = host.container("evil", [Bind(CNI, HOST_CNI)], body=malicious)
    for number, id in enumerate(sorted(honest)):
        host.write_bundle(id, f"c{number}", [Bind(CNI, HOST_CNI)])
        # Links that say that it is somebody else's: the bundle is the runtime's word and goes first.
        os.symlink("/var/log/pods/other_pod_uid/evil/0.log", f"/var/log/containers/pod_other_evil-{id}.log")
    assert host.look().container_count == PODS + 1
    flapping = come_and_go(host)
    host.patch()
    took = []
    for number in range(10):
        before = time.monotonic()
        snapshot = host.look() if number % 3 else host.look_anew()
        took.append(time.monotonic() - before)
        assert snapshot.torn == "", snapshot.torn
        found = stale(snapshot)
        assert honest <= found, f"look {number}: {len(honest - found)} of {len(honest)} are missed"
        assert not found & (set(ids) - honest)
        names = {one.id: one.name for one in snapshot.containers}
        assert all(names[id].startswith("c") for id in honest)
        expected = {one.expected.deployment for one in judge(snapshot) if one.subject.container_id in honest}
        assert expected == {f"debian-{NEW}.0"}
        told = [one for one in snapshot.problems if evil.id[:12] in one.where]
        assert evil.id in found or told, "who has too many mounts is said to have"
    os.kill(flapping, signal.SIGKILL)
    os.waitpid(flapping, 0)
    assert max(took) < 10, took
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 400 << 10, "KiB"
    print([round(one, 3) for one in took])


@in_namespaces
def test_a_cgroup_that_is_called_as_another_container(tmp_path: Path) -> None:
    """Who may make cgroups (privileged, delegated) names one inside its own as an honest container: that is found all
    the same, and the forger does not speak for it."""
    host = FakeHost(tmp_path)
    forger = host.container("forger", [Bind(CNI, HOST_CNI)])
    time.sleep(0.1)  # Older than the honest one, so that it would be taken for its first process.
    honest = host.container("honest", [Bind(CNI, HOST_CNI)])
    for root in cgroup_roots():
        place = root / token() / forger.id / honest.id
        place.mkdir()
        (place / "cgroup.procs").write_text(str(forger.pid))
    host.patch()
    snapshot = host.look_anew()
    found = {one.id: one.pid for one in snapshot.containers}
    assert found.get(honest.id) == honest.pid, (found, snapshot.problems)

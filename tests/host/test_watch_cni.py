# SPDX-License-Identifier: Apache-2.0
"""What is written into a CNI directory wakes the watcher, as each writer writes it, also after the directory is
another one; and where it cannot be watched, that is said. A date and a clock that is set wake it, too."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inotify_simple import INotify

from ostreewatchd.model import Settings
from ostreewatchd.observe.host import Host
from ostreewatchd.observe.look import glance
from ostreewatchd.watch.configurations import ConfigurationWatch
from ostreewatchd.watch.dates import DateWatch
from tests.host.fakehost import CNI, NEW, Bind, FakeHost
from tests.host.namespace import in_namespaces, needs_root
from tests.host.test_watch import Hints

pytestmark = needs_root


class Watching:
    """A watch of the fake host's CNI directory, armed as the watcher does it."""

    def __init__(self) -> None:
        self.hints = Hints()
        self.lost: list[str] = []
        self.watch = ConfigurationWatch(asyncio.get_running_loop(), self.hints, self.lost.append)
        self.arm()

    def arm(self) -> None:
        with Host() as host:
            self.watch.arm(host.root, (CNI, "/etc/cni/others"))

    async def wakes(self, what: str, change: Callable[[], object]) -> None:
        self.hints.at.clear()
        change()
        for _ in range(200):
            if self.hints.at:
                break
            await asyncio.sleep(0.005)
        assert self.hints.at, what
        await asyncio.sleep(0.02)

    async def wakes_nobody(self, what: str, change: Callable[[], object]) -> None:
        await asyncio.sleep(0.02)
        self.hints.at.clear()
        change()
        await asyncio.sleep(0.1)
        assert not self.hints.at, what


def running(body: Callable[[Watching], Any]) -> None:
    async def main() -> None:
        one = Watching()
        try:
            await body(one)
        finally:
            one.watch.close()

    asyncio.run(main())


def renamed(path: Path) -> None:
    Path(f"{path}.new").write_text("x")
    os.rename(f"{path}.new", path)


@in_namespaces
def test_each_way_to_write_wakes(tmp_path: Path) -> None:
    FakeHost(tmp_path)
    file = Path(CNI, "calico-kubeconfig")

    async def body(one: Watching) -> None:
        await one.wakes("made", lambda: file.write_text("x"))
        await one.wakes("truncated in place", lambda: file.write_text("y"))
        await one.wakes("renamed", lambda: renamed(file))
        Path("/tmp/other").write_text("z")
        await one.wakes("moved from another device", lambda: shutil.move("/tmp/other", file))
        await one.wakes("removed", file.unlink)
        below = Path(CNI, "multus.d")
        await one.wakes("a directory", below.mkdir)
        one.arm()
        await one.wakes("in a directory", lambda: renamed(below / "multus.kubeconfig"))
        await one.wakes_nobody("read", lambda: [(below / "multus.kubeconfig").read_text(), os.listdir(CNI)])
        await one.wakes_nobody("beside", lambda: Path("/etc/hosts").write_text("x"))
        assert not one.lost

    running(body)


@in_namespaces
def test_it_follows_the_host_to_another_directory(tmp_path: Path) -> None:
    host = FakeHost(tmp_path)
    kept = os.open(CNI, os.O_PATH)
    old, new = Path(f"/proc/self/fd/{kept}"), Path(f"/sysroot/ostree/deploy/debian/deploy/{NEW}.0{CNI}")

    async def body(one: Watching) -> None:
        host.patch()
        await one.wakes("a mount makes no event: still the old one", lambda: (old / "x").write_text("x"))
        await one.wakes_nobody("and not the new one", lambda: (new / "x").write_text("x"))
        one.arm()
        await one.wakes("the new one", lambda: (new / "x").write_text("y"))
        await one.wakes_nobody("and not the old one", lambda: (old / "x").write_text("y"))
        await one.wakes("moved away", lambda: os.rename(CNI, f"{CNI}.old"))
        one.arm()
        await one.wakes_nobody("left", lambda: Path(f"{CNI}.old/x").write_text("z"))
        os.mkdir(CNI)
        one.arm()
        await one.wakes("made anew", lambda: Path(f"{CNI}/x").write_text("z"))
        await one.wakes("removed", lambda: shutil.rmtree(CNI))
        one.arm()
        os.makedirs("/tmp/elsewhere/net.d")
        os.symlink("/tmp/elsewhere/net.d", CNI)
        one.arm()
        await one.wakes("by a link, inside the host's root", lambda: Path("/tmp/elsewhere/net.d/x").write_text("x"))
        assert not one.lost

    running(body)


@in_namespaces
def test_the_directory_that_the_runtimes_configuration_names(tmp_path: Path) -> None:
    """It is one that a switch moves like the platform's own; and the new tree may name another one."""
    host = FakeHost(tmp_path)
    config = '[plugins."io.containerd.grpc.v1.cri".cni]\nconf_dir = "{}"\n'
    trees = [Path("/"), Path(f"/sysroot/ostree/deploy/debian/deploy/{NEW}.0")]
    for tree, name in zip(trees, ("one", "two")):
        for directory in ("etc/containerd", "etc/one/net.d", "etc/two/net.d"):
            (tree / directory).mkdir(parents=True)
        (tree / "etc/containerd/config.toml").write_text(config.format(f"/etc/{name}/net.d"))
    host.container("writer", [Bind("/etc/one/net.d", "/host/one")])
    before = host.look()
    assert before.cni_directories == (CNI, "/etc/one/net.d")

    async def body(one: Watching) -> None:
        with Host() as seen:
            one.watch.arm(seen.root, glance(seen, Settings()).cni_directories)
        await one.wakes("written", lambda: Path("/etc/one/net.d/x").write_text("x"))

    running(body)
    host.patch()
    after = host.look()
    assert after.cni_directories == (CNI, "/etc/two/net.d")
    assert after.live.fingerprint != before.live.fingerprint


@in_namespaces
def test_what_cannot_be_watched_is_said_once(tmp_path: Path) -> None:
    FakeHost(tmp_path)
    real = INotify.add_watch
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def body(one: Watching) -> None:
        def full(*_: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        INotify.add_watch = full
        one.arm()
        one.arm()
        assert one.lost == [f"{CNI}: No space left on device"]
        INotify.add_watch = real
        one.arm()
        await one.wakes("there is room again", lambda: Path(CNI, "x").write_text("x"))
        other = ConfigurationWatch(asyncio.get_running_loop(), one.hints, one.lost.append)
        with Host() as host:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, limit[1]))
            try:
                other.arm(host.root, (CNI,))
                other.arm(host.root, (CNI,))
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            assert one.lost[1:] == ["inotify: Too many open files"]
            other.arm(host.root, (CNI,))
        await one.wakes("there is one again", lambda: Path(CNI, "x").write_text("x"))
        assert len(one.lost) == 2
        other.close()

    running(body)


def test_a_date_wakes_once_and_another_takes_its_place() -> None:
    async def main() -> None:
        hints = Hints()
        watch = DateWatch(asyncio.get_running_loop(), hints)
        await asyncio.sleep(0.05)
        assert not hints.at, "without a date"
        watch.arm(time.time() + 86400)
        watch.arm(time.time() - 5)
        await hints.soon(1)
        watch.arm(time.time() + 86400)
        await asyncio.sleep(0.05)
        assert len(hints.at) == 1
        due = int(time.time()) + 1
        watch.arm(float(due))
        await hints.soon(2, within=30)
        assert time.time() >= due
        watch.close()

    asyncio.run(main())


def test_a_clock_that_is_set_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel tells it (timerfd_create(2)): the clock of the machine that this runs on cannot be set."""

    async def main() -> None:
        hints = Hints()
        watch = DateWatch(asyncio.get_running_loop(), hints)
        answers = [OSError(errno.ECANCELED, ""), BlockingIOError()]

        def read(*_: object) -> bytes:
            raise answers.pop(0)

        with monkeypatch.context() as patch:
            patch.setattr(os, "read", read)
            watch._woken()
            watch._woken()
        assert len(hints.at) == 1
        watch.close()

    asyncio.run(main())

# SPDX-License-Identifier: Apache-2.0
"""A live-apply from end to end: a real overlay on /usr, rpm-ostree's and libostree's files in their order, signals
over a real bus, and the watcher. Whatever becomes of the signals, it knows what a look from scratch finds."""

from __future__ import annotations

import concurrent.futures.thread  # noqa: F401  What is imported late must be there before the root is another one.
import contextlib
import encodings.idna  # noqa: F401
import io
import os
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pystemd.dbuslib  # noqa: F401
import pytest

from ostreewatchd import watcher
from ostreewatchd.cli import (
    main,
    status,  # noqa: F401
)
from ostreewatchd.lean import asyncio
from ostreewatchd.model import Settings
from ostreewatchd.observe import deep  # noqa: F401
from ostreewatchd.peers.bus import SYSTEM_BUS
from ostreewatchd.report.journal import Journal, Kind
from ostreewatchd.report.notify import Notifier
from ostreewatchd.watch.deployments import DeploymentWatch
from ostreewatchd.watch.mounts import MountWatch
from ostreewatchd.watch.rpmostree import RpmOstreeWatch
from ostreewatchd.watch.traces import TraceWatch
from ostreewatchd.watcher import Watcher
from tests.fakes.messagebus import MessageBus
from tests.fakes.rpmostreed import FakeRpmOstreed, FakeSystemd, lossy, until
from tests.host.fakehost import CNI, OLD, Bind, FakeHost, bind, umount
from tests.host.namespace import in_namespaces, needs_root

pytestmark = needs_root

REFS = "/ostree/repo/refs/heads/rpmostree"
STATE = f"/run/ostree/deployment-state/{OLD}.0"
STAMP = f"{STATE}/rpmostree-is-live.stamp"
FIRST, SECOND = "c" * 64, "d" * 64
QUICK = Settings(settle=0.05, resync=3600.0)


class Entries:
    """What was reported, and STATUS=."""

    def __init__(self) -> None:
        self.all: list[tuple[Kind, str]] = []
        self.text = ""

    def report(self, kind: Kind, message: str, **_: Any) -> None:
        self.all.append((kind, message))

    def status(self, text: str) -> None:
        self.text = text

    watchdog = None

    def has(self, kind: Kind, text: str) -> bool:
        return any(one is kind and text in message for one, message in self.all)


class Still:
    """The loop of one that looks once."""

    def time(self) -> float:
        return time.monotonic()

    def call_later(self, *_: object) -> None:
        return


class Live:
    """The host, the daemon and the watcher; `apply` does what rpm-ostree does, step by step (live.rs)."""

    def __init__(self, host: FakeHost, bus: MessageBus, folder: Path) -> None:
        self.host = host
        self.daemon, self.systemd = FakeRpmOstreed(bus, folder), FakeSystemd(bus)
        self.entries = Entries()
        self.watcher = self.new_watcher(asyncio.get_running_loop(), self.entries)

    def new_watcher(self, loop: asyncio.AbstractEventLoop, entries: Entries) -> Watcher:
        return Watcher(loop, cast(Journal, entries), cast(Notifier, entries), QUICK)

    def rename(self, path: str, text: str = "") -> None:
        """As libostree writes a file."""
        self.host.write(f"{os.path.dirname(path)}/.new", text)
        os.rename(f"{os.path.dirname(path)}/.new", path)

    def begin(self, target: str, *, method: str = "LiveFs") -> None:
        """Steps 1 to 6: until the references say that it is under way."""
        self.daemon.transaction(method)
        if not os.path.exists(STAMP):
            self.systemd.begin()
            self.host.unlock(read_only=True)
            self.rename(f"{STATE}/unlocked-transient")
            os.utime("/ostree/deploy")
            self.systemd.end()
        live = f"{REFS}/live-apply"
        if os.path.exists(STAMP) and os.path.exists(live):
            self.rename(live, Path(live).read_text(encoding="utf-8"))
        self.rename(f"{REFS}/live-apply-inprogress", f"{target}\n")
        self.rename(STAMP)

    def end(self, target: str, *, method: str = "LiveFs") -> None:
        """Steps 8 to 12. With an installation, /ostree/deploy is not touched."""
        self.rename(f"{REFS}/live-apply", f"{target}\n")
        os.unlink(f"{REFS}/live-apply-inprogress")
        if method == "LiveFs":
            os.utime("/ostree/deploy")
        self.daemon.finish()

    async def same_as_from_scratch(self) -> None:
        """What the watcher knows is what one knows that has never looked."""

        def same() -> bool:
            other = self.new_watcher(cast(asyncio.AbstractEventLoop, Still()), Entries())
            try:
                other._due()
                # All that a journal would be told.
                mine, others = self.watcher._teller, other._teller
                return all(getattr(mine, one) == getattr(others, one) for one in ("_told", "_fingerprint", "_waiting"))
            finally:
                other.close()

        await until(same)


def run(folder: Path, body: Callable[[Live], Awaitable[None]], *, deaf: bool = False) -> None:
    """On a fake host, with the bus where a host has it. `deaf`: nobody listens."""
    outside = folder / "bus"
    outside.mkdir()
    with MessageBus(outside) as bus:
        handle = os.open(outside, os.O_PATH)
        host = FakeHost(folder)
        os.makedirs("/run/dbus")
        os.makedirs("/run/ostreewatchd")
        bind(f"/proc/self/fd/{handle}", "/run/dbus")
        os.close(handle)
        bus.socket = Path("/run/dbus/system_bus_socket")
        bus._activated = Path("/run/dbus") / bus._activated.name
        host.write("/run/ostree-booted")
        os.makedirs(os.path.dirname(REFS))

        async def started() -> None:
            live = Live(host, bus, Path("/run"))
            loop, own = asyncio.get_running_loop(), live.watcher
            mounts = MountWatch(loop, own.mounts_changed)
            deployments = DeploymentWatch(loop, own.deployments_changed)
            traces = TraceWatch(loop, own.traces_changed)
            where = "/run/none" if deaf else SYSTEM_BUS
            listener = RpmOstreeWatch(loop, own.rpm_ostree_changed, path=where)
            await live.systemd.start()
            own.look_soon()
            try:
                await body(live)
            finally:
                mounts.close()
                deployments.close()
                traces.close()
                await listener.close()
                await live.daemon.stop()
                await live.systemd.stop()
                own.close()
                live.daemon.close()

        asyncio.run(asyncio.wait_for(started(), 50))


@in_namespaces
def test_from_its_call_to_its_end_and_a_second_one(tmp_path: Path) -> None:
    async def body(live: Live) -> None:
        entries, daemon = live.entries, live.daemon
        live.host.container("calico-node", [Bind(CNI, "/host/etc/cni/net.d")])
        live.host.container("modules", [Bind("/usr/lib/modules", "/lib/modules", writable=False)])
        await until(lambda: "listening to rpm-ostree (not running" in entries.text)
        await live.same_as_from_scratch()
        assert not entries.has(Kind.NOTED, "modules")
        await daemon.start()
        live.begin(FIRST)
        await until(lambda: "rpm-ostree is applying a commit to the live /usr" in entries.text)
        assert entries.text.startswith("waiting: ")
        assert '"transaction":true' in (await said("status", "--json")).replace(" ", "")
        assert "rpmostree LiveFs of fedora_coreos is under way" in await said("status")
        live.end(FIRST)
        await until(lambda: entries.has(Kind.SWITCH, "unlocked, with an overlay (transient) on /usr"))
        await until(lambda: entries.has(Kind.NOTED, "/usr/lib/modules as /lib/modules"))
        await until(lambda: "listening to rpm-ostree (idle)" in entries.text)
        await live.same_as_from_scratch()
        # Another one: no mount is made, and of the two only the one by LiveFs touches /ostree/deploy.
        for method, target in (("LiveFs", SECOND), ("UpdateDeployment", FIRST)):
            live.begin(target, method=method)
            await until(lambda: "rpm-ostree is applying a commit to the live /usr" in entries.text)
            live.end(target, method=method)
            await until(lambda: "listening to rpm-ostree (idle)" in entries.text)
            await live.same_as_from_scratch()
        await daemon.idle_exit()
        await until(lambda: "listening to rpm-ostree (not running" in entries.text)

    run(tmp_path, body)


async def said(*arguments: str) -> str:
    """By a thread without a loop of its own, as a person's program has none."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        await asyncio.get_running_loop().run_in_executor(None, main, arguments)
    return out.getvalue()


async def step(live: Live, dice: random.Random, what: str) -> None:
    """One thing that happens, with what becomes of its signals."""
    daemon, services = live.daemon, (live.daemon, live.systemd)
    if daemon._connection is None:
        await daemon.start()
    for service in services:
        service.hold = True
    if what in ("LiveFs", "UpdateDeployment"):
        target = dice.choice((FIRST, SECOND))
        live.begin(target, method=what)
        if dice.random() < 0.5:
            await asyncio.sleep(dice.choice((0.0, 0.02, 0.2)))
            for service in services:
                service.release(lossy(dice))
        live.end(target, method=what)
    elif what == "interrupted":
        live.begin(FIRST)
        long_ago = time.time() - 700
        os.utime(f"{REFS}/live-apply-inprogress", (long_ago, long_ago))
        daemon.active = ("", "", "")
        await daemon.stop(name_first=False)
    elif what == "reset":
        overlays = [
            line
            for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").split("\n")
            if " - overlay " in line
        ]
        if overlays:
            umount("/usr")
            os.unlink(STAMP)
    elif what == "garbage":
        live.rename("/run/ostree/staged-deployment", "torn")
    elif what == "none":
        with contextlib.suppress(FileNotFoundError):
            os.unlink("/run/ostree/staged-deployment")
    elif what == "exit":
        await daemon.idle_exit()
    elif what == "container":
        live.host.container("modules", [Bind("/usr/lib/modules", "/lib/modules", writable=False)])
        bind("/tmp", "/tmp")  # As a pod's own mounts, which wake.
    for service in services:
        service.hold = False
        service.release(lossy(dice) if dice.random() < 0.7 else lambda _: [])


@pytest.mark.parametrize("seed", range(4))
@in_namespaces
def test_whatever_becomes_of_the_signals(seed: int, tmp_path: Path) -> None:
    """Lost, doubled, reordered, all of them at times or always: the watcher knows what a look from scratch finds."""
    # A switch a short time ago is a reason to look by itself.
    watcher.AFTER_SWITCH, watcher.SWITCH_IS_RECENT = (), -1.0
    dice = random.Random(seed)
    kinds = ("LiveFs", "UpdateDeployment", "interrupted", "reset", "garbage", "none", "exit", "container")

    async def body(live: Live) -> None:
        await live.same_as_from_scratch()
        for number in range(20):
            what = kinds[number] if number < len(kinds) and seed == 0 else dice.choice(kinds)
            await step(live, dice, what)
            if dice.random() < 0.6:
                await live.same_as_from_scratch()
        await live.same_as_from_scratch()

    run(tmp_path, body, deaf=seed % 2 == 1)

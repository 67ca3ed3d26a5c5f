# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree is listened to on a real bus, and is not disturbed: no call but the reading of one property, no start, no
touch of a transaction's socket (the fixtures' ends look for these)."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from dbus_next.signature import Variant
from hypothesis import given, settings
from hypothesis import strategies as st

from ostreewatchd.model import RpmOstreeView
from ostreewatchd.peers import rpmostree
from ostreewatchd.peers.bus import Bus, Message
from ostreewatchd.report import words
from ostreewatchd.watch.rpmostree import RpmOstreeWatch
from tests.fakes.messagebus import NAME, SYSTEMD, MessageBus
from tests.fakes.rpmostreed import OS, PATH, UNLOCK, FakeRpmOstreed, FakeSystemd, lossy, until

AWAY = RpmOstreeView(installed=True, owned=False, transaction=False)
IDLE = RpmOstreeView(installed=True, owned=True, transaction=False)
TOGETHER = 0.03
READING = ("org.freedesktop.DBus.Properties", "Get", f"{NAME}.Sysroot", "ActiveTransaction")


def at_work(title: str = "UpdateDeployment of fedora_coreos") -> RpmOstreeView:
    return RpmOstreeView(installed=True, owned=True, transaction=True, title=title)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ostreewatchd.watch.rpmostree._TOGETHER", TOGETHER)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[MessageBus]:
    with MessageBus(tmp_path) as one:
        yield one


class Heard:
    """What a watch has told."""

    def __init__(self) -> None:
        self.views: list[RpmOstreeView] = []

    def __call__(self, view: RpmOstreeView) -> None:
        self.views.append(view)

    @property
    def last(self) -> RpmOstreeView | None:
        return self.views[-1] if self.views else None

    async def quiet(self) -> None:
        """No more comes, as far as a moment tells."""
        count = -1
        while count != len(self.views):
            count = len(self.views)
            await asyncio.sleep(4 * TOGETHER)


Body = Callable[[FakeRpmOstreed, FakeSystemd, Heard, RpmOstreeWatch], Awaitable[None]]


def watching(bus: MessageBus, folder: Path, body: Body, *, path: str = "") -> None:
    async def main() -> None:
        daemon, systemd, heard = FakeRpmOstreed(bus, folder), FakeSystemd(bus), Heard()
        watch = RpmOstreeWatch(asyncio.get_running_loop(), heard, path=path or str(bus.socket), pauses=(0.02, 0.05))
        try:
            await asyncio.wait_for(body(daemon, systemd, heard, watch), 40)
        finally:
            await watch.close()
            await daemon.stop()
            await systemd.stop()
            daemon.close()
        assert set(daemon.calls) <= {READING}, "nothing else is asked of it"
        assert not asyncio.all_tasks() - {asyncio.current_task()}

    asyncio.run(main())


def test_from_its_start_to_its_idle_exit(bus: MessageBus, tmp_path: Path) -> None:
    async def body(daemon: FakeRpmOstreed, systemd: FakeSystemd, heard: Heard, watch: RpmOstreeWatch) -> None:
        await until(lambda: heard.last == AWAY)
        await daemon.start()
        await until(lambda: heard.last == IDLE)
        daemon.transaction()
        await until(lambda: heard.last == at_work())
        daemon.finish()
        await until(lambda: heard.last == IDLE)
        await daemon.idle_exit()
        await until(lambda: heard.last == AWAY)
        await heard.quiet()
        count = len(heard.views)
        await asyncio.sleep(12 * TOGETHER)
        assert len(heard.views) <= count + 1, "it is not polled"
        assert len(daemon.calls) <= 5

    watching(bus, tmp_path, body)


def test_it_runs_already_and_is_at_work(bus: MessageBus, tmp_path: Path) -> None:
    async def main() -> None:
        daemon, heard = FakeRpmOstreed(bus, tmp_path), Heard()
        await daemon.start()
        daemon.transaction("LiveFs", on=f"{PATH}/debian")
        watch = RpmOstreeWatch(asyncio.get_running_loop(), heard, path=str(bus.socket))
        await until(lambda: heard.last == at_work("LiveFs of debian"))
        await watch.close()
        await daemon.stop(name_first=False)
        daemon.close()

    asyncio.run(main())


class Ear:
    """What comes over a connection that follows, and which of it counts. `barrier` waits for all that was sent."""

    def __init__(self, bus: Bus) -> None:
        self.bus, self.senders = bus, rpmostree.Senders()
        self.came: list[str] = []
        self.counted: list[str] = []
        bus.listen(self._heard)

    def _heard(self, message: Message) -> None:
        self.came.append(str(message.member))
        if self.senders.is_hint(message):
            self.counted.append(str(message.member))

    async def barrier(self, *services: FakeRpmOstreed | FakeSystemd) -> None:
        for number, service in enumerate(services):
            last = f"Last{number}"
            service.emit("/last", "org.example.Last", last, "", to=str(self.bus.unique_name))
            await until(lambda: last in self.came)  # noqa: B023
        self.came = [member for member in self.came if not member.startswith(("Last", "Name"))]


def hearing(
    bus: MessageBus, folder: Path, body: Callable[[FakeRpmOstreed, FakeSystemd, Ear], Awaitable[None]]
) -> None:
    async def main() -> None:
        daemon, systemd = FakeRpmOstreed(bus, folder), FakeSystemd(bus)
        await systemd.start()
        await daemon.start()
        connection = await Bus.open(str(bus.socket))
        ear = Ear(connection)
        await rpmostree.follow(connection, ear.senders)
        await rpmostree.subscribe(connection, ear.senders.systemd)
        await body(daemon, systemd, ear)
        connection.close()
        await daemon.stop()
        await systemd.stop()
        daemon.close()

    asyncio.run(asyncio.wait_for(main(), 40))


def test_each_kind_of_signal_is_a_hint(bus: MessageBus, tmp_path: Path) -> None:
    """And of other units nothing comes: a node starts one a pod, and more."""

    async def body(daemon: FakeRpmOstreed, systemd: FakeSystemd, ear: Ear) -> None:
        systemd.begin("cri-containerd-1.scope")
        systemd.end("cri-containerd-1.scope")
        daemon._changed(OS, f"{NAME}.OS", Name=Variant("s", "fedora-coreos"))
        daemon.emit(PATH, "org.freedesktop.DBus.ObjectManager", "InterfacesRemoved", "oas", OS, [])
        await ear.barrier(daemon)
        systemd.begin()
        systemd.end()
        await ear.barrier(systemd)
        expected = ["PropertiesChanged", "InterfacesRemoved", "UnitNew", "JobNew", "JobRemoved", "UnitRemoved"]
        assert ear.came == ear.counted == expected

    hearing(bus, tmp_path, body)


def test_whoever_else_sends_such_signals_is_not_heard(bus: MessageBus, tmp_path: Path) -> None:
    """Anybody may send a signal to anybody."""

    async def body(daemon: FakeRpmOstreed, systemd: FakeSystemd, ear: Ear) -> None:
        listener = str(ear.bus.unique_name)
        other = FakeSystemd(bus)
        other.name = "org.example.Other"
        await other.start()
        properties, driver, manager = "org.freedesktop.DBus.Properties", "org.freedesktop.DBus", f"{SYSTEMD}.Manager"
        other.emit(f"{PATH}/Sysroot", properties, "PropertiesChanged", "sa{sv}as", "x", {}, [], to=listener)
        other.emit("/org/freedesktop/systemd1", manager, "UnitNew", "so", UNLOCK, "/x", to=listener)
        other.emit("/org/freedesktop/DBus", driver, "NameOwnerChanged", "sss", NAME, "", ":9", to=listener)
        daemon.emit("/org/example", properties, "PropertiesChanged", "sa{sv}as", "x", {}, [], to=listener)
        systemd.emit("/org/freedesktop/systemd1", "org.example.Manager", "UnitNew", "so", UNLOCK, "/x", to=listener)
        systemd.emit("/org/freedesktop/systemd1", manager, "UnitNew", "so", "a.scope", "/x", to=listener)
        owner = ear.senders.rpm_ostree
        await ear.barrier(other, daemon, systemd)
        assert len(ear.came) == 5 and ear.counted == [] and ear.senders.rpm_ostree == owner
        await other.stop()

    hearing(bus, tmp_path, body)


def test_systemd_is_executed_anew(bus: MessageBus, tmp_path: Path) -> None:
    """It forgets who has subscribed, and comes back under another name."""

    async def body(daemon: FakeRpmOstreed, systemd: FakeSystemd, heard: Heard, watch: RpmOstreeWatch) -> None:
        await systemd.start()
        await until(lambda: len(systemd.subscribers) == 1)
        await systemd.stop()
        systemd.subscribers.clear()
        await systemd.start()
        await until(lambda: len(systemd.subscribers) == 1)
        await heard.quiet()
        count = len(heard.views)
        systemd.begin()
        await until(lambda: len(heard.views) > count)

    watching(bus, tmp_path, body)


def test_a_storm_is_a_few_hints(bus: MessageBus, tmp_path: Path) -> None:
    async def body(daemon: FakeRpmOstreed, systemd: FakeSystemd, heard: Heard, watch: RpmOstreeWatch) -> None:
        daemon.packages = [f"package-{number}" for number in range(5000)]
        await daemon.start()
        await until(lambda: heard.last == IDLE)
        await heard.quiet()
        count, began = len(heard.views), time.monotonic()
        for _ in range(30):
            daemon.transaction()
            daemon.finish()
        await until(lambda: len(heard.views) > count and heard.last == IDLE)
        assert 0 < len(heard.views) - count <= (time.monotonic() - began) / TOGETHER + 2

    watching(bus, tmp_path, body)


def test_the_bus_is_restarted(bus: MessageBus, tmp_path: Path) -> None:
    async def body(daemon: FakeRpmOstreed, systemd: FakeSystemd, heard: Heard, watch: RpmOstreeWatch) -> None:
        await until(lambda: heard.last == AWAY)
        for _ in range(3):
            bus.stop()
            await until(lambda: heard.last is not None and bool(heard.last.problem))
            assert heard.last is not None and heard.last.installed and heard.last.transaction is None
            bus.start()
            watch.again()
            await until(lambda: heard.last == AWAY)
        await daemon.start()
        await until(lambda: heard.last == IDLE)

    watching(bus, tmp_path, body)


def test_no_bus_is_tried_a_few_times_and_then_when_it_is_time_to(tmp_path: Path) -> None:
    bus = MessageBus(tmp_path)

    async def body(daemon: FakeRpmOstreed, systemd: FakeSystemd, heard: Heard, watch: RpmOstreeWatch) -> None:
        await until(lambda: heard.views)
        for _ in range(20):
            await asyncio.sleep(0.02)
        (view,) = heard.views
        assert "No such file or directory" in view.problem and view.installed is None
        assert words.rpm_ostree(view) == "", "silence"
        bus.start()
        await asyncio.sleep(0.3)
        assert len(heard.views) == 1, "not tried any more"
        watch.again()
        await until(lambda: heard.last == AWAY)

    with_stop(bus, lambda: watching(bus, tmp_path, body))


def with_stop(bus: MessageBus, call: Callable[[], None]) -> None:
    try:
        call()
    finally:
        bus.stop()
    assert not bus.was_activated()


def test_a_host_without_rpm_ostree_is_silent(tmp_path: Path) -> None:
    async def body(daemon: FakeRpmOstreed, systemd: FakeSystemd, heard: Heard, watch: RpmOstreeWatch) -> None:
        await until(lambda: heard.views)
        assert heard.last == RpmOstreeView(installed=False, owned=False, transaction=False)
        assert words.rpm_ostree(heard.last) == ""

    with MessageBus(tmp_path, with_rpm_ostree=False) as bus:
        watching(bus, tmp_path, body)


def test_a_daemon_that_does_not_answer_is_not_known(
    bus: MessageBus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ostreewatchd.peers.bus._ANSWER_WITHIN", 0.2)

    async def body(daemon: FakeRpmOstreed, systemd: FakeSystemd, heard: Heard, watch: RpmOstreeWatch) -> None:
        daemon.answers = False
        await daemon.start()
        await until(lambda: heard.last is not None and "no answer within" in heard.last.problem)
        assert heard.last is not None and heard.last.owned and heard.last.transaction is None
        monkeypatch.setattr("ostreewatchd.peers.bus._ANSWER_WITHIN", 10.0)
        daemon.answers = True
        for odd in (Variant("s", "x"), Variant("(ss)", ["a", "b"]), Variant("(ssu)", ["a", "b", 1])):
            daemon.odd_answer = odd
            before = len(heard.views)
            daemon.reload()
            await until(lambda: any("that is none" in one.problem for one in heard.views[before:]))  # noqa: B023
        daemon.odd_answer = None
        daemon.reload()
        await until(lambda: heard.last == IDLE)

    watching(bus, tmp_path, body)


def test_it_is_asked_once_by_who_has_no_loop(bus: MessageBus, tmp_path: Path) -> None:
    async def main() -> None:
        loop, daemon = asyncio.get_running_loop(), FakeRpmOstreed(bus, tmp_path)

        async def asked() -> RpmOstreeView:
            return await loop.run_in_executor(None, rpmostree.ask, str(bus.socket))

        assert await asked() == AWAY
        await daemon.start()
        assert await asked() == IDLE
        daemon.transaction()
        assert await asked() == at_work()
        assert set(daemon.calls) == {READING} and len(daemon.calls) == 2
        await daemon.stop(name_first=False)
        daemon.close()

    asyncio.run(main())
    assert "No such file or directory" in rpmostree.ask(str(tmp_path / "none")).problem


def test_a_bus_that_hangs_is_not_known(bus: MessageBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpmostree, "_ASK_WITHIN", 0.3)
    bus.freeze()
    assert rpmostree.ask(str(bus.socket)) == RpmOstreeView(problem=f"{bus.socket}: no answer within 0.3 s")
    bus.thaw()


def test_lost_doubled_and_reordered_signals_end_in_what_is_so(tmp_path: Path) -> None:
    """What is told last is what is read from scratch; as long as one signal behind the last change comes through, or
    the daemon's end."""
    folder = tmp_path
    with MessageBus(folder) as bus:

        @given(st.integers(0, 2**32), st.lists(st.sampled_from(("begin", "end", "reload", "exit")), max_size=6))
        @settings(max_examples=12, deadline=None)
        def check(seed: int, steps: list[str]) -> None:
            (folder / "rpm-ostree-transaction.sock").unlink(missing_ok=True)
            dice = random.Random(seed)

            async def body(daemon: FakeRpmOstreed, systemd: FakeSystemd, heard: Heard, watch: RpmOstreeWatch) -> None:
                await until(lambda: heard.views)
                for step in steps:
                    if daemon._connection is None:
                        await daemon.start()
                    daemon.hold = True
                    if step == "begin":
                        daemon.transaction(dice.choice(("LiveFs", "UpdateDeployment")))
                    elif step == "end":
                        daemon.finish()
                    elif step == "reload":
                        daemon.reload()
                    elif daemon.active == ("", "", ""):
                        await daemon.idle_exit()
                    daemon.hold = dice.random() < 0.5
                    if not daemon.hold:
                        daemon.release(lossy(dice))
                daemon.hold = False
                daemon.release(lossy(dice))
                daemon.reload()  # One that is not lost.
                await as_from_scratch(bus, heard)

            watching(bus, folder, body)

        check()


async def as_from_scratch(bus: MessageBus, heard: Heard) -> None:
    scratch = await Bus.open(str(bus.socket))
    try:
        now = await rpmostree.see(scratch)
        await until(lambda: heard.last == now)
    finally:
        scratch.close()


def test_it_can_be_closed_at_any_moment(bus: MessageBus) -> None:
    """Before Python 3.12 wait_for() loses a cancellation that comes together with its answer."""

    async def main() -> None:
        for turns in range(120):
            watch = RpmOstreeWatch(asyncio.get_running_loop(), lambda _: None, path=str(bus.socket))
            for _ in range(turns):
                await asyncio.sleep(0)
            await watch.close()
            assert watch.task.done()

    asyncio.run(asyncio.wait_for(main(), 40))

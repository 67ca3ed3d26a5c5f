# SPDX-License-Identifier: Apache-2.0
"""What the watcher reports of a look: each thing once, under its own kind of entry."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from ostreewatchd.judge import judge
from ostreewatchd.lean import asyncio
from ostreewatchd.model import Deployments, Identity, Ostree, RpmOstreeView, Settings, Snapshot, Switch
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal, Kind
from ostreewatchd.report.notify import Notifier
from ostreewatchd.watcher import Watcher
from tests.unit.worlds import BOOT, NEW_NAME, NOW, OLD_NAME, world


class Loop:
    """As much of an event loop as a report needs."""

    def __init__(self) -> None:
        self.later: list[float] = []

    def time(self) -> float:
        return 1000.0

    def call_later(self, delay: float, *_: Any) -> None:
        self.later.append(delay)


class Entries:
    """What was reported."""

    def __init__(self) -> None:
        self.all: list[tuple[Kind, str]] = []

    def report(self, kind: Kind, message: str, **_: Any) -> None:
        self.all.append((kind, message))

    def take(self) -> list[tuple[Kind, str]]:
        taken, self.all = self.all, []
        return taken


class Bench:
    def __init__(self) -> None:
        self.loop, self.entries = Loop(), Entries()
        self.watcher = Watcher(
            cast(asyncio.AbstractEventLoop, self.loop), cast(Journal, self.entries), Notifier({}), Settings()
        )

    def report(self, snapshot: Snapshot) -> list[tuple[Kind, str]]:
        self.watcher._report(snapshot, judge(snapshot))
        return self.entries.take()


@pytest.fixture
def bench() -> Any:
    # Of Python 3.9 an Event wants a loop where it is made, and asyncio.run() of another test leaves none.
    real = asyncio.new_event_loop()
    asyncio.set_event_loop(real)
    one = Bench()
    yield one
    one.watcher.close()
    asyncio.set_event_loop(None)
    real.close()


def at_rest(**more: Any) -> Snapshot:
    names = Deployments(booted=OLD_NAME, etc=OLD_NAME, usr=OLD_NAME, **more)
    built = world().live(deployments=names, usr_class="self", fingerprint="at rest")
    return built.part(ostree=Ostree(is_booted=True, root=Identity(dev=1, ino=2), etc_writable=True)).snapshot()


def changed(snapshot: Snapshot, **ostree: Any) -> Snapshot:
    return msgspec.structs.replace(snapshot, ostree=msgspec.structs.replace(snapshot.ostree, **ostree))


def test_a_host_at_rest_is_no_news(bench: Bench) -> None:
    assert bench.report(at_rest()) == [] == bench.loop.later


def test_what_is_wrong_is_said_once(bench: Bench) -> None:
    wrong = changed(at_rest(), etc_writable=False)
    ((kind, text),) = bench.report(wrong)
    assert kind is Kind.WRONG and text.startswith("wrong: host: /etc: ")
    assert bench.report(wrong) == []
    assert bench.report(at_rest()) == []
    assert len(bench.report(wrong)) == 1, "it is wrong again"


def test_what_takes_effect_later_is_pending(bench: Bench) -> None:
    """Staged, prepared for a soft reboot, or written for the next boot: nothing of it is a switch."""
    bench.report(at_rest())
    for snapshot in (at_rest(staged=NEW_NAME), at_rest(pending=NEW_NAME), changed(at_rest(), next_root=NEW_NAME)):
        ((kind, text),) = bench.report(snapshot)
        assert kind is Kind.PENDING and "nothing is restarted" in text
        assert bench.report(snapshot) == []
    assert bench.loop.later == []


def test_a_composefs_host_and_a_sysext_are_no_switch(bench: Bench) -> None:
    """Of neither does the mount of /usr name a deployment."""
    plain = at_rest()
    live = msgspec.structs.replace(
        plain.live, usr_class="sysext", deployments=Deployments(booted=OLD_NAME, etc=OLD_NAME)
    )
    assert bench.report(msgspec.structs.replace(plain, live=live)) == []


def test_the_first_look_after_a_soft_reboot(bench: Bench) -> None:
    before = Switch(id="s", fingerprint="f", boot_id=BOOT, deployment=OLD_NAME, seen_at=NOW - 900, root="9:9")
    snapshot = at_rest()
    history = msgspec.structs.replace(snapshot.history, switch=before)
    ((kind, text),) = bench.report(msgspec.structs.replace(snapshot, history=history))
    assert kind is Kind.SWITCH and text.startswith("soft reboot: userspace was started anew in the same boot")
    assert bench.loop.later == [5.0, 30.0], "a container that is being created shows up late"


def test_a_switch(bench: Bench) -> None:
    bench.report(at_rest())
    ((kind, text),) = bench.report(world().snapshot())
    assert kind is Kind.SWITCH and text.startswith("switched without a reboot: live debian-bbbbbbbbbb.0, booted")


def test_an_unlock_is_no_switch_of_the_deployment(bench: Bench) -> None:
    """At the start, too: what is live is what was booted. After a patch it is another one, and an unlock says less."""
    rest = at_rest()
    live = msgspec.structs.replace(
        rest.live, usr_class="ostree-overlay", usr_overlay="development", fingerprint="unlocked"
    )
    unlocked = changed(msgspec.structs.replace(rest, live=live), unlocked=("development",))
    ((kind, text),) = bench.report(unlocked)
    assert kind is Kind.SWITCH and text.startswith("unlocked, with an overlay (development) on /usr")
    assert "switched" not in text
    names = msgspec.structs.replace(live.deployments, etc=NEW_NAME)
    live = msgspec.structs.replace(live, deployments=names, fingerprint="both")
    assert bench.report(msgspec.structs.replace(unlocked, live=live))[0][1].startswith("switched without a reboot")


def test_the_end_of_a_transaction_is_a_reason_to_look_and_to_ask(bench: Bench) -> None:
    """A remediation may have been refused for it; no mount need have changed."""
    busy = RpmOstreeView(installed=True, owned=True, transaction=True, title="LiveFs of x")
    asked: list[str] = []
    bench.watcher._asker.again = lambda: asked.append("again")  # type: ignore[method-assign]
    for view, times in ((busy, 0), (busy, 0), (RpmOstreeView(problem="gone", installed=True), 1), (busy, 1)):
        bench.watcher._must_look, bench.watcher._timer, bench.loop.later = False, None, []
        bench.watcher.rpm_ostree_changed(view)
        assert bench.watcher._must_look and bench.loop.later == [Settings().settle]
        assert len(asked) == times


def test_that_rpm_ostree_is_listened_to_is_in_the_status() -> None:
    rest = at_rest()
    for view, text in (
        (None, ""),
        (RpmOstreeView(problem="no bus"), ""),
        (RpmOstreeView(installed=False, owned=False, transaction=False), ""),
        (
            RpmOstreeView(installed=True, owned=False, transaction=False),
            "; listening to rpm-ostree (not running, as",
        ),
        (RpmOstreeView(installed=True, owned=True, transaction=False), "; listening to rpm-ostree (idle)"),
        (
            RpmOstreeView(installed=True, owned=True, transaction=True, title="LiveFs of x"),
            "; listening to rpm-ostree (LiveFs of x is under way)",
        ),
        (RpmOstreeView(installed=True, owned=True, problem="late"), "; listening to rpm-ostree (not known: late)"),
        (RpmOstreeView(installed=True, problem="gone"), "; not listening to rpm-ostree (not known: gone)"),
    ):
        said = words.summary(msgspec.structs.replace(rest, rpm_ostree=view), ())
        assert text in said and ("rpm-ostree" in said) == bool(text)


def test_a_listener_with_a_fault_is_told(bench: Bench) -> None:
    async def main() -> None:
        async def fault() -> None:
            raise ValueError("odd")

        for body in (fault(), asyncio.sleep(30)):
            task = asyncio.ensure_future(body)
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait({task})
            bench.watcher.listener_ended(task)

    asyncio.run(main())
    ((kind, text),) = bench.entries.take()
    assert kind is Kind.FAILED and "not listened to any more" in text and "ValueError: odd" in text


def test_who_writes_tokens_all_the_time_is_not_looked_at_all_the_time(bench: Bench) -> None:
    """The first hint is followed at once (but for the settle time), one soon after a look five seconds after that."""
    bench.watcher.credentials_changed()
    assert bench.loop.later == [Settings().settle]
    bench.watcher._looked_at = 999.0
    bench.watcher.credentials_changed()
    assert bench.loop.later[1:] == [4.0]

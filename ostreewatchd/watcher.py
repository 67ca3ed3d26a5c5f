# SPDX-License-Identifier: Apache-2.0
"""The watcher: waits for hints, looks when the host is quiet, and asks for a remediation. It cannot act.
The program of ostreewatchd.service."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Callable, Optional

import msgspec

from ostreewatchd import __version__, ledger, settings, settle
from ostreewatchd.asking import Asker
from ostreewatchd.judge import judge
from ostreewatchd.lean import asyncio
from ostreewatchd.listening import Listening
from ostreewatchd.model import Exit, Finding, Pause, RpmOstreeView, Settings, Snapshot
from ostreewatchd.observe.clock import Clock
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.host import Host, HostGone
from ostreewatchd.observe.look import Glance, glance, look_on
from ostreewatchd.peers.hostmounts import HostMounts
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal, Kind, last_words
from ostreewatchd.report.notify import Notifier
from ostreewatchd.telling import SWITCH_IS_RECENT, Teller

_REMEDIATION = "/usr/libexec/ostreewatchd/ostreewatchd-remediate"
_CREDENTIALS_PACE = 5.0
"""Seconds after a look before the next for what is written into CNI directories."""
AFTER_SWITCH = (5.0, 30.0)
"""Seconds after a switch at which it is looked at again: a container being created shows up late."""
FORGET_EVERY = 12
"""Resyncs: a look that remembers nothing costs forty times as much."""
_MAX_FAILURES = 8
"""Looks that fail one after the other before the watcher gives up, for systemd to start it anew."""
_MAX_TORN = 20
"""Looks in a row during which the host moved, before one of them is reported as it is."""


class Watcher:
    """The loop's state. All methods run in the loop's thread; the clock is the loop's own."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, journal: Journal, notifier: Notifier, config: Settings
    ) -> None:
        self._loop = loop
        self._journal = journal
        self._notifier = notifier
        self._config = config
        self._looker = ContainerLooker(remember=True)
        self._clock = Clock()
        self._mounts = HostMounts()
        self._unrest: Optional[settle.Unrest] = None
        self._timer: Optional[asyncio.TimerHandle] = None
        self._teller = Teller(journal)
        self._fingerprint = ""
        self._looked_at = -_CREDENTIALS_PACE
        self._failures = self._resyncs = self._torn = 0
        self._at_resync: list[Callable[[], None]] = []
        self._after_look: list[Callable[[Glance, Snapshot], None]] = []
        self.gave_up = asyncio.Event()
        self._switched = -SWITCH_IS_RECENT
        self._overdue = False
        self._order_ends: Optional[asyncio.TimerHandle] = None
        self._must_look = True
        self._rpm_ostree: Optional[RpmOstreeView] = None
        self._asker = Asker(loop, journal, self.look_soon, self.gave_up.set)

    def close(self) -> None:
        self._looker.close()
        self._mounts.close()

    def mounts_changed(self) -> None:
        """A hint from the mount table: whether it matters, the first cheap look tells."""
        self._schedule(0)

    def deployments_changed(self) -> None:
        """A hint from libostree."""
        self._schedule(self._config.settle)

    def traces_changed(self) -> None:
        """A hint from what rpm-ostree and libostree write down: no mount need have changed."""
        self._must_look = True
        self._schedule(self._config.settle)

    def credentials_changed(self) -> None:
        """A hint from a CNI directory, or from the calendar. Whoever writes there all the time is not looked at
        all the time."""
        self._looker.credentials.forget()
        self._must_look = True
        self._schedule(max(self._config.settle, self._looked_at + _CREDENTIALS_PACE - self._loop.time()))

    def rpm_ostree_changed(self, view: RpmOstreeView) -> None:
        """A hint from rpm-ostree, with what is known of it."""
        known, self._rpm_ostree = self._rpm_ostree, view
        if known is not None and known.transaction and not view.transaction:
            # A remediation may have been refused for it.
            self._asker.again()
        self.traces_changed()

    def listener_ended(self, task: asyncio.Task[None]) -> None:
        """It ends when the watcher does. By itself it only ends by a fault, and the rest goes on without its hints."""
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._journal.report(Kind.FAILED, f"rpm-ostree is not listened to any more: {last_words(error)}")

    def look_soon(self) -> None:
        """Look, whether or not anything has moved."""
        self._must_look = True
        self._schedule(0)

    def resync(self) -> None:
        """Look although nothing asked for it. Now and then remember nothing: what is remembered of processes rests
        on what they usually do."""
        if self._resyncs % FORGET_EVERY == 0:
            self._looker.forget()
        self._looker.credentials.forget()
        self._resyncs += 1
        for call in self._at_resync:
            call()
        self.look_soon()
        self._loop.call_later(self._config.resync, self.resync)

    def at_resync(self, call: Callable[[], None]) -> None:
        """What to do with each resync besides."""
        self._at_resync.append(call)

    def after_look(self, call: Callable[[Glance, Snapshot], None]) -> None:
        """What to do with each look besides, while its host is open."""
        self._after_look.append(call)

    def reload(self) -> None:
        """Read the configuration anew."""
        self._config, complaints = settings.load()
        for complaint in complaints:
            self._journal.report(Kind.CONFIG, str(complaint), file=complaint.file, line=complaint.line)
        self._asker.again()
        self.look_soon()

    def feed(self) -> None:
        """Feed the watchdog: as this runs in the loop that does the work, a loop that hangs is not fed."""
        self._notifier.alive()
        if self._notifier.watchdog:
            self._loop.call_later(self._notifier.watchdog, self.feed)

    def _schedule(self, delay: float) -> None:
        """One look is due at a time, the earliest: hints that keep coming must not put it off for ever."""
        if self._timer is not None:
            if self._timer.when() <= self._loop.time() + delay:
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(delay, self._due)

    def _due(self) -> None:
        self._timer = None
        try:
            self._consider()
            self._failures = 0
        except HostGone as error:
            self._failed(f"the host cannot be looked at: {error}")
        except Exception as error:  # noqa: BLE001  The loop would only log it, and STATUS would go on saying that all is well.
            self._failed(last_words(error))

    def _failed(self, why: str) -> None:
        self._failures += 1
        self._notifier.status(f"cannot look: {why}")
        if self._failures == 1:
            self._journal.report(Kind.FAILED, why)
        if self._failures >= _MAX_FAILURES:
            self.gave_up.set()
            return
        self._must_look = True
        self._schedule(min(30.0, 0.5 * 2**self._failures))

    def _consider(self) -> None:
        """Cheap first: a glance tells whether a look is worth its while."""
        with Host(self._mounts) as host:
            first = glance(host, self._config)
            if self._is_time(first):
                self._look(first)

    def _is_time(self, first: Glance) -> bool:
        """Whether something has moved and all is quiet. If not yet, the next look is scheduled."""
        now, state = self._loop.time(), first.live
        if self._fingerprint not in ("", state.fingerprint):
            self._unrest = settle.moved(self._unrest, now)
        self._fingerprint = state.fingerprint
        if self._teller.knows(state) and not self._must_look and now - self._switched > SWITCH_IS_RECENT:
            # Some mount of some pod: nothing that could have made a container stale.
            self._unrest = None
            return False
        verdict = settle.settled(
            self._unrest,
            now,
            first.flags,
            quiet=self._config.settle,
            cap=self._config.settle_cap,
            complete=not state.partial,
        )
        if isinstance(verdict, settle.Wait):
            self._unrest = self._unrest or settle.Unrest(now, now - self._config.settle)
            self._notifier.status(f"waiting: {verdict.why}; {words.live(state)}")
            self._schedule(max(0.01, verdict.until - now))
            return False
        if isinstance(verdict, settle.Overdue):
            if not self._overdue:
                self._journal.report(
                    Kind.OVERDUE, f"a switch has been under way for {verdict.age:.0f} s: {verdict.why}"
                )
            self._overdue = True
            self._notifier.status(f"waiting for {verdict.age:.0f} s: {verdict.why}; {words.live(state)}")
            self._schedule(min(60.0, self._config.resync))
            return False
        self._unrest, self._overdue, self._must_look = None, False, False
        return True

    def _look(self, first: Glance) -> None:
        snapshot = look_on(first, self._looker, ledger.read())
        self._looked_at = self._loop.time()
        steps = self._clock.steps(snapshot.taken_at, snapshot.taken_boottime)
        snapshot = msgspec.structs.replace(snapshot, clock_steps=steps)
        for call in self._after_look:
            call(first, snapshot)
        if self._rpm_ostree is not None:
            snapshot = msgspec.structs.replace(snapshot, rpm_ostree=self._rpm_ostree)
        self._torn = self._torn + 1 if snapshot.torn else 0
        if 0 < self._torn < _MAX_TORN:
            self._notifier.status(f"looking again: {snapshot.torn}")
            self._must_look = True
            self._schedule(self._config.settle)
            return
        findings = judge(snapshot)
        self._report(snapshot, findings)
        self._asker.consider(snapshot, findings, installed=_is_installed(first))
        alarm = "; a remediation was asked for and did not start" if self._asker.not_taken_up else ""
        self._notifier.status(words.summary(snapshot, findings) + alarm)

    def _report(self, snapshot: Snapshot, findings: Sequence[Finding]) -> None:
        """Tell what is new, and look again when that asks for it."""
        news = self._teller.tell(snapshot, findings)
        if news.switched:
            self._switched = self._loop.time()
            for delay in AFTER_SWITCH:
                self._loop.call_later(delay, self.look_soon)
        if news.pause_changed:
            self._await_end_of(snapshot.pause, snapshot)

    def _await_end_of(self, order: Optional[Pause], snapshot: Snapshot) -> None:
        """Look again when the pause ends; of one that has ended, what is owed is asked for at once."""
        if self._order_ends is not None:
            self._order_ends.cancel()
            self._order_ends = None
        if order is None:
            self._asker.again()
            return
        # By either clock: which of them tells the end is the order's to say. Once more is looked at each resync.
        left = order.seconds - (snapshot.taken_boottime - order.since_boottime)
        if order.boot_id != snapshot.node.boot_id:
            left = order.until - snapshot.taken_at
        self._order_ends = self._loop.call_later(max(1.0, min(left, 8 * 86400.0)), self.look_soon)


def _is_installed(first: Glance) -> bool:
    """Whether the live tree has the remediation; where that cannot be told it is taken for granted."""
    try:
        return first.host.root.exists(_REMEDIATION)
    except OSError:
        return True


async def _serve(journal: Journal, notifier: Notifier) -> int:
    loop = asyncio.get_running_loop()
    config, complaints = settings.load()
    for complaint in complaints:
        journal.report(Kind.CONFIG, str(complaint), file=complaint.file, line=complaint.line)
    watcher = Watcher(loop, journal, notifier, config)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    loop.add_signal_handler(signal.SIGHUP, watcher.reload)
    try:
        listening = Listening(loop, journal, watcher, config.resync)
    except OSError as error:
        journal.report(Kind.FAILED, f"/proc/1/mountinfo: {error.strerror}: this needs CAP_SYS_PTRACE")
        return Exit.COULD_NOT_KNOW
    journal.report(Kind.STARTED, f"ostreewatchd {__version__} watches (mode {config.mode})", mode=config.mode)
    notifier.ready()
    watcher.resync()
    watcher.feed()
    ends = [asyncio.ensure_future(stop.wait()), asyncio.ensure_future(watcher.gave_up.wait())]
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
        notifier.stopping()
        await listening.close()
        watcher.close()
    return Exit.COULD_NOT_KNOW if watcher.gave_up.is_set() else Exit.NOTHING_OWED


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Entry point. NOTHING_OWED: it was stopped; COULD_NOT_KNOW: the host cannot be watched."""
    parser = argparse.ArgumentParser(prog="ostreewatchd", description="The watcher; started by ostreewatchd.service.")
    parser.add_argument("--version", action="version", version=__version__)
    parser.parse_args(argv)
    journal, notifier = Journal("ostreewatchd"), Notifier(os.environ)
    try:
        return asyncio.run(_serve(journal, notifier))
    except HostGone as error:
        print(f"ostreewatchd: {error}", file=sys.stderr)
        return Exit.COULD_NOT_KNOW
    except Exception as error:  # noqa: BLE001  A person never sees a traceback.
        journal.report(Kind.FAILED, last_words(error))
        return Exit.COULD_NOT_KNOW
    finally:
        notifier.close()
        journal.close()

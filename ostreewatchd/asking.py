# SPDX-License-Identifier: Apache-2.0
"""When the watcher asks for a remediation: at once for what is new, after growing pauses for what stays owed, and
with an alarm if nobody takes the request up."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Callable, Optional

from ostreewatchd import ledger, wanted
from ostreewatchd.judge.runtime_watch import is_stale
from ostreewatchd.lean import asyncio
from ostreewatchd.model import Finding, History, Snapshot
from ostreewatchd.report.journal import Journal, Kind

_PAUSES = (5.0, 10.0, 20.0, 40.0, 60.0)
"""Seconds between requests while something stays owed; the last one repeats."""
_PAUSE_ALARMED = 300.0
"""Seconds between requests when all that is left waits for a person, or for a time that is further away."""
_ENDS_UNSEEN = frozenset({"cni-configuration-missing", "waits-for-restart"})
"""Alarms whose cause may end with nobody asking: a file that an operator or an installer puts there, a
container that kubelet starts at last."""
_MAY_COME_BACK = frozenset({"container-will-not-stop", "container-will-not-start", "sandbox-will-not-start"})
"""Failures that may be over with nobody asking, and the breaker with them: the container is there again, and fresh."""
_TAKEN_UP_WITHIN = 30.0
"""Seconds after which a request that nobody took up is an alarm."""
_MAX_UNWRITTEN = 8
"""Requests in a row that could not be made (four minutes, by the pauses) before the watcher gives up."""


class Asker:
    """What was asked for, and when to look whether to ask again. Runs in the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        journal: Journal,
        look_soon: Callable[[], None],
        give_up: Callable[[], None],
    ) -> None:
        """`give_up`: the place for requests is gone, or stays out of reach; systemd makes it anew with the next
        start."""
        self._loop = loop
        self._journal = journal
        self._look_soon = look_soon
        self._give_up = give_up
        self._pause = 0.0
        self._asked_for: frozenset[str] = frozenset()
        self._asked = 0
        self._unwritten = 0
        self._questions: dict[str, int] = {}
        """With the newest remediation when they came up."""
        self._next: Optional[asyncio.TimerHandle] = None
        self._overdue: Optional[asyncio.TimerHandle] = None
        self.not_taken_up = False
        """The last request was not taken up in time."""

    def again(self) -> None:
        """Ask at the next look, whatever was asked for before."""
        if self._next is not None:
            self._next.cancel()
        self._next = None

    def consider(self, snapshot: Snapshot, findings: Sequence[Finding], *, installed: bool) -> None:
        """Ask, if it is time to. `installed`: the live tree has the remediation.

        Besides for what is owed: once for each state that the ledger does not know, so that the next switch has a
        predecessor there; for an act whose outcome is not written; for a ledger that cannot be read, which only a
        remediation can set aside, and had better before the next switch needs it; and once for what only a process can
        tell, which the watcher never asks."""
        history = snapshot.history
        due = {finding.subject.container_id for finding in findings if finding.owed}
        owed = len(due)
        if history.problem:
            due.add("a ledger that can be read")
        elif history.switch is None or history.switch.fingerprint != snapshot.live.fingerprint:
            due.add(f"switch {snapshot.live.fingerprint}")
        due.update(self._unasked(tuple(_to_be_asked(snapshot))))
        # An act without its outcome is nothing new: its remediation may be at work.
        unfinished = any(not act.outcome for act in history.acts)
        if not due and not unfinished:
            self._done()
        elif due - self._asked_for:
            self._asked = 0
            told = snapshot.pause is None and not _is_refused(
                {one.subject.container_id for one in findings if one.owed}
            )
            self._ask(frozenset(due), owed if told else 0, installed, history)
        elif self._next is None or (due < self._asked_for and self._pause > _PAUSES[-1]):
            # What was in the way may have been what is no longer due.
            self._ask(frozenset(due), owed, installed, history)

    def _unasked(self, questions: Sequence[str]) -> Iterator[str]:
        """Those of them that no remediation has looked into since they came up. One that has refused what it found is
        followed up like all that stays owed."""
        newest = ledger.newest_run() if questions else 0
        self._questions = {one: self._questions.get(one, newest) for one in questions}
        for one in questions:
            if newest <= self._questions[one] or _is_refused_for_a_unit():
                yield one

    def _done(self) -> None:
        self._asked, self._asked_for, self.not_taken_up = 0, frozenset(), False
        for timer in (self._next, self._overdue):
            if timer is not None:
                timer.cancel()
        self._next = self._overdue = None

    def _ask(self, due: frozenset[str], owed: int, installed: bool, history: History) -> None:
        self._asked_for = due
        if not installed:
            self._alarm("the live tree does not have this product: nothing is healed until one is live that has it")
        try:
            wanted.ask()
        except OSError as error:
            self._not_written(error)
        else:
            self._unwritten = 0
            if owed and not self._asked:
                self._journal.report(Kind.ASKED, f"asked for a remediation: {owed} owed", owed=owed)
            if self._overdue is None:
                self._overdue = self._loop.call_later(_TAKEN_UP_WITHIN, self._was_it_taken_up, ledger.newest_run())
        self._pause = _pause_until_it_may_end(history) or _PAUSES[min(self._asked, len(_PAUSES) - 1)]
        self._asked += 1
        if self._next is not None:
            self._next.cancel()
        self._next = self._loop.call_later(self._pause, self._again)

    def _not_written(self, error: OSError) -> None:
        """It is tried again as if it had been asked for; what is gone only systemd brings back."""
        self._unwritten += 1
        text = f"{wanted.WANTED}: {error.strerror}: no remediation can be asked for"
        if isinstance(error, FileNotFoundError) or self._unwritten >= _MAX_UNWRITTEN:
            self._journal.report(Kind.FAILED, text)
            self._give_up()
        else:
            self._alarm(f"{text}; it is tried again")

    def _again(self) -> None:
        self._next = None
        self._look_soon()

    def _was_it_taken_up(self, run: int) -> None:
        """The ledger tells: the file itself is removed also where the program behind it is missing."""
        self._overdue = None
        if ledger.newest_run() > run:
            self.not_taken_up = False
        elif ledger.is_running():
            # It began before this request, and can take it up only when it has ended.
            self._overdue = self._loop.call_later(_TAKEN_UP_WITHIN, self._was_it_taken_up, run)
        else:
            self._alarm(
                f"a remediation was asked for {_TAKEN_UP_WITHIN:.0f} s ago and the ledger shows none: can it be"
                " written, and do the units run? See `systemctl status ostreewatchd-remediate.path"
                " ostreewatchd-remediate.service`"
            )

    def _alarm(self, text: str) -> None:
        if not self.not_taken_up:
            self._journal.report(Kind.ALARM, text)
        self.not_taken_up = True


def _is_refused(owed: set[str]) -> bool:
    """Whether the last remediation refused all of that already, which it does not say once more: an entry on the
    request would be one without an outcome."""
    try:
        last = ledger.last_run()
    except ledger.LedgerError:
        return False
    if last is None or not last.refusals:
        return False
    refused = {one.subject.container_id for one in last.refusals if one.subject is not None}
    return owed <= refused or any(one.subject is None for one in last.refusals)


def _to_be_asked(snapshot: Snapshot) -> Iterator[str]:
    """What only a process can tell, in words that are others as soon as its answer may be: whether a runtime has
    loaded what its CNI directory names first, where it would not have noticed that; and what of a live-apply those
    that run have not taken over, which need not have made a mount."""
    for one in snapshot.cni_readers:
        if snapshot.runtime is None and one.network and is_stale(snapshot, one):
            yield f"whether {one.runtime} (pid {one.pid}) has loaded {one.network} of {one.identity}"
    commit = snapshot.ostree.live_commit if snapshot.ostree.is_live else ""
    if snapshot.runtime is None and commit and snapshot.runtimes:
        yield f"what those that run have of {commit}"


def _is_refused_for_a_unit() -> bool:
    try:
        last = ledger.last_run()
    except ledger.LedgerError:
        return False
    return last is not None and any(one.subject is not None and one.subject.kind == "unit" for one in last.refusals)


def _pause_until_it_may_end(history: History) -> float:
    """Seconds, if the last remediation refused everything for reasons of which the end is known or a person's; else
    0."""
    try:
        last = ledger.last_run()
    except ledger.LedgerError:
        return 0.0
    if last is None or not last.refusals:
        return 0.0
    ends = [refusal.ends_at for refusal in last.refusals if refusal.ends_at is not None]
    ends_unseen = _ENDS_UNSEEN | ({"breaker"} if _may_come_back(history) else set())
    unseen = [one for one in last.refusals if one.ends_at is None and (not one.alarm or one.name in ends_unseen)]
    if unseen:
        return 0.0
    return max(_PAUSES[0], min([_PAUSE_ALARMED, *(end - time.time() for end in ends)]))


def _may_come_back(history: History) -> bool:
    """Whether a restart of this switch failed in such a way."""
    current = history.switch.id if history.switch is not None else ""
    return any(
        act.switch_id == current and act.outcome == "not-cured" and act.failure in _MAY_COME_BACK
        for act in history.acts
    )

# SPDX-License-Identifier: Apache-2.0
"""What the watcher tells of a look: what is new since the look before, each thing once, in the journal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Optional

from ostreewatchd.model import Finding, Live, Pause, Snapshot
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal, Kind

SWITCH_IS_RECENT = 120.0
"""Seconds after a switch during which each mount is a reason to look."""

_KINDS = {"stale": Kind.NOTED, "wrong": Kind.WRONG}
"""Of findings that are not owed."""


class News(NamedTuple):
    """What of it is more than words."""

    switched: bool
    """A switch is new, or it was so soon before the first look that more of it may show."""
    pause_changed: bool
    """Another pause holds than at the look before, or none."""


class Teller:
    """What was told, to tell only what is new."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._fingerprint = ""
        self._waiting = ("", "")
        self._told: frozenset[tuple[object, ...]] = frozenset()
        self._pause: Optional[Pause] = None

    def knows(self, state: Live) -> bool:
        """Whether that is the state of the look before."""
        return state.fingerprint == self._fingerprint and _waiting(state) == self._waiting

    def tell(self, snapshot: Snapshot, findings: Sequence[Finding]) -> News:
        """Report what is new since the look before."""
        state = snapshot.live
        switched = state.fingerprint != self._fingerprint and self._tell_switch(snapshot)
        news = News(switched, self._tell_pause(snapshot.pause))
        told = {
            *self._tell_waiting(snapshot),
            *(self._tell_finding(finding) for finding in findings),
            *self._tell_problems(snapshot),
        }
        self._fingerprint, self._waiting = state.fingerprint, _waiting(state)
        self._told, self._pause = frozenset(told), snapshot.pause
        return news

    def _tell_switch(self, snapshot: Snapshot) -> bool:
        """The state is another one than at the look before, or this is the first look."""
        state, names, newest = snapshot.live, snapshot.live.deployments, snapshot.history.switch
        first = not self._fingerprint
        if state.usr_class == "ostree-overlay" and not state.besides_booted:
            text = (
                f"unlocked, with an overlay ({state.usr_overlay or 'of unknown kind'}) on /usr and no other deployment"
            )
        elif state.is_switched:
            text = "switched without a reboot" if not first else "the host was switched without a reboot"
        elif first and snapshot.soft_rebooted:
            text = "soft reboot: userspace was started anew in the same boot"
        else:
            text = "" if first else "a watched directory, or what is mounted over the live tree, is another one"
        if text:
            self._journal.report(
                Kind.SWITCH, f"{text}: {words.live(state)}", deployment=names.etc, booted=names.booted,
                usr_class=state.usr_class, etc_mount=state.etc_mount,
            )  # fmt: skip
        if not first:
            return True
        # Also at a start soon after a switch: the remediation restarts the watcher that it finds stale.
        known_for = snapshot.taken_at - newest.seen_at if newest and newest.fingerprint == state.fingerprint else 0.0
        return bool(text) and 0 <= known_for < SWITCH_IS_RECENT

    def _tell_pause(self, order: Optional[Pause]) -> bool:
        """That one holds, or holds no longer; whether that is new."""
        if order == self._pause:
            return False
        if order is None:
            self._journal.report(Kind.RESUMED, "the pause has ended")
        else:
            self._journal.report(Kind.PAUSED, words.pause(order), who=order.who, until=words.when(order.until))
        return True

    def _tell_waiting(self, snapshot: Snapshot) -> set[tuple[object, ...]]:
        told: set[tuple[object, ...]] = set()
        for deployment, text in words.waiting(snapshot):
            told.add((text,))
            if (text,) not in self._told:
                self._journal.report(Kind.PENDING, text, deployment=deployment)
        return told

    def _tell_finding(self, finding: Finding) -> tuple[object, ...]:
        subject = finding.subject.container_id
        key = (finding.rule, finding.verdict, finding.owed, subject, finding.path, finding.inside)
        if key not in self._told:
            kind = Kind.OWED if finding.owed else _KINDS.get(finding.verdict, Kind.UNKNOWN)
            self._journal.report(
                kind, words.finding(finding), subject=finding.subject, rule=finding.rule, path=finding.path,
                expected=words.identity(finding.expected), actual=words.identity(finding.actual),
                remedy=finding.remedy,
            )  # fmt: skip
        return key

    def _tell_problems(self, snapshot: Snapshot) -> set[tuple[object, ...]]:
        told: set[tuple[object, ...]] = set()
        for problem in snapshot.problems:
            told.add((problem.where, problem.what))
            if (problem.where, problem.what) not in self._told:
                self._journal.report(Kind.UNKNOWN, words.problem(problem))
        return told


def _waiting(state: Live) -> tuple[str, str]:
    """The deployments that are pending and staged."""
    return state.deployments.pending, state.deployments.staged

# SPDX-License-Identifier: Apache-2.0
"""Findings, plans and states in words: the same words in the journal, in STATUS= and on the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Optional

from ostreewatchd.model import (
    Finding,
    History,
    Live,
    PastAct,
    Pause,
    Problem,
    Refusal,
    RpmOstreeView,
    Seen,
    Snapshot,
    Step,
    short_name,
)
from ostreewatchd.report.printable import printable


def live(state: Live) -> str:
    names = state.deployments
    if not names.booted and not names.etc:
        return "no OSTree deployment (judging by identity alone)"
    text = f"live {short_name(names.etc or names.booted)}"
    if names.usr and names.etc and names.usr != names.etc:
        text += f" in /etc and {short_name(names.usr)} in /usr"
    if names.booted and names.booted != names.etc:
        text += f", booted {short_name(names.booted)}"
    if names.pending:
        text += f", pending {short_name(names.pending)}"
    if names.staged:
        text += f", staged {short_name(names.staged)}"
    return text


def usr(state: Live) -> str:
    """The class of the live /usr, and which kind of overlay it has."""
    return f"{state.usr_class}, {state.usr_overlay}" if state.usr_overlay else state.usr_class


def pending(state: Live) -> str:
    """One line on what the next boot takes; empty where that is as usual, or not known."""
    names = state.deployments
    if names.pending:
        return f"pending   {names.pending} (takes effect with the next reboot)"
    if names.next_boot and names.next_boot != names.booted:
        return "pending   none besides the live one, which the next boot takes"
    return ""


def not_booted(state: Live) -> str:
    """One line where what is live is not booted: libostree guards the booted deployment alone. Source:
    ostree-sysroot-cleanup.c; ostree-admin-undeploy(1)."""
    if not state.besides_booted:
        return ""
    return (
        f"caution   the live deployment {short_name(state.besides_booted)} is not the booted one, and libostree counts"
        " it as pending: do not undeploy or prune it before the next reboot"
    )


def rpm_ostree(view: Optional[RpmOstreeView]) -> str:
    """What is known of rpm-ostree's daemon; empty where the host has none, and where nobody knows whether it has."""
    if view is None or not view.installed:
        return ""
    if view.problem:
        return f"not known: {view.problem}"
    if view.transaction:
        return f"{view.title} is under way"
    return "idle" if view.owned else "not running, as is usual while nobody calls it"


def waiting(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """What takes effect later, each deployment with a sentence."""
    names, ostree = snapshot.live.deployments, snapshot.ostree
    nothing = "nothing on this host uses it yet, so nothing is restarted"
    if names.pending:
        yield (
            names.pending,
            f"{short_name(names.pending)} is pending: it takes effect with the next reboot and {nothing}",
        )
    if names.staged:
        locked = ", which is locked, so it is not" if ostree.staged_is_locked else ""
        text = f"{short_name(names.staged)} is staged: it is to be written at shutdown{locked}; {nothing}"
        yield names.staged, text
    if ostree.next_root:
        name = short_name(ostree.next_root)
        yield ostree.next_root, f"{name} is prepared for a soft reboot: it takes effect with the next one; {nothing}"


def identity(seen: Optional[Seen]) -> str:
    if seen is None:
        return "unknown"
    return f"{seen.dev}:{seen.ino}" + (f" ({short_name(seen.deployment)})" if seen.deployment else "")


def finding(one: Finding) -> str:
    word = "owed" if one.owed else ("noted" if one.verdict == "stale" else one.verdict)
    where = one.path if one.inside in ("", one.path) else f"{one.path} as {one.inside}"
    return printable(": ".join(part for part in (word, str(one.subject), where, one.reason) if part))


def refusal(one: Refusal) -> str:
    who = f"{one.subject}: " if one.subject else ""
    at = f" ({when(one.ends_at)})" if one.ends_at is not None else ""
    return printable(f"{who}refused ({one.name}): {one.because}. Ends {one.ends}{at}")


def pause(one: Pause) -> str:
    if one.problem:
        return f"paused: the order cannot be read, and so holds: {one.problem}"
    return f"paused until {when(one.until)} by {one.who}: {one.why}"


def step(one: Step) -> str:
    # A sandbox is killed: it knows no grace.
    text = f"stop sandbox of {one.subject}"
    if one.subject.kind == "unit":
        along = f", and with it {', '.join(one.along)}" if one.along else ""
        before = "read unit files anew and " if one.daemon_reload else ""
        text = f"{before}{one.kind.partition('-')[0]} {one.subject}{along}"
    elif one.kind == "stop-container":
        text = f"stop container {one.subject} (grace {one.grace} s)"
    return printable(f"{text}: {one.because}")


def when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))


def act(one: PastAct) -> str:
    outcome = f"{one.outcome}: {one.proof}" if one.outcome else "no outcome yet"
    return printable(f"{when(one.intent_at)}  switch {one.switch_id}  {one.step} {one.subject}  {outcome}")


def recovery(history: History, act: PastAct) -> list[str]:
    """How the node came back from an act, at first and minutes afterwards; nothing where that was not judged."""
    known = next((one for one in history.recoveries if one.act == act.id), None)
    found = []
    if known is not None and known.verdict:
        found.append(f"{when(known.judged_at)}  the node: {known.verdict} {known.why}")
    if known is not None and known.late_verdict:
        found.append(f"{when(known.late_at)}  the node, later: {known.late_verdict} {known.late_why}")
    return [printable(line.rstrip()) for line in found]


def problem(one: Problem) -> str:
    return printable(f"not read: {one.where}: {one.what}")


class Counts(NamedTuple):
    """How many findings there are of each kind; of the host only what is wrong, and `unclear`, which is unknown."""

    owed: int
    noted: int
    unknown: int
    wrong: int
    unclear: int = 0


def counts(findings: Iterable[Finding]) -> Counts:
    owed = noted = unknown = wrong = unclear = 0
    for one in findings:
        if one.owed:
            owed += 1
        elif one.verdict == "stale":
            noted += 1
        elif one.verdict == "unknown" and one.subject.kind == "host":
            unclear += 1
        elif one.verdict == "unknown":
            unknown += 1
        elif one.verdict == "wrong":
            wrong += 1
    return Counts(owed, noted, unknown, wrong, unclear)


def summary(snapshot: Snapshot, findings: Sequence[Finding]) -> str:
    """One line on all: STATUS= of the watcher."""
    owed, noted, unknown, wrong, unclear = counts(findings)
    paused = snapshot.pause
    text = f"{printable(pause(paused))[:200]}; " if paused is not None else ""
    text += f"{live(snapshot.live)}; {snapshot.container_count} containers"
    text += f"; {owed} owed, {noted} noted" if owed or noted else "; nothing stale"
    text += f", {unknown} unknown" if unknown else ""
    text += f", {wrong} wrong with the host" if wrong else ""
    text += f", {unclear} unknown of the host" if unclear else ""
    heard = rpm_ostree(snapshot.rpm_ostree)
    if heard:
        listening = "not listening" if snapshot.rpm_ostree and snapshot.rpm_ostree.owned is None else "listening"
        text += f"; {listening} to rpm-ostree ({printable(heard)[:120]})"
    return text + (f", {len(snapshot.problems)} not read" if snapshot.problems else "")

# SPDX-License-Identifier: Apache-2.0
"""The remediation's program: one at a time on a host, with what it tells the journal and its exit status."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Optional

from ostreewatchd import __version__, settings
from ostreewatchd.act.unit import restart_if_failed, restart_if_running
from ostreewatchd.ledger import PATH, Ledger, LedgerError
from ostreewatchd.model import Exit, Refusal, Settings, all_exits
from ostreewatchd.observe.host import HostGone, this_boot
from ostreewatchd.observe.own_tree import stale_watcher
from ostreewatchd.peers.errors import PeerError
from ostreewatchd.peers.systemd import SystemdError
from ostreewatchd.remediation import told
from ostreewatchd.remediation.loop import Did, Result, remediate, without_ledger
from ostreewatchd.remediation.recovering import Recoverer, Seeing
from ostreewatchd.remediation.world import RealWorld, World
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal, Kind, last_words

_WATCHER = "ostreewatchd.service"


class AlreadyRunning(Exception):
    """Another remediation holds the lock."""


@contextlib.contextmanager
def _only_one(path: str) -> Iterator[None]:
    """Hold the lock file for the run. Raises AlreadyRunning, or LedgerError where it cannot be made."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise LedgerError(f"{path}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(f"another remediation holds {path}") from None
        yield
    finally:
        os.close(fd)


def run(
    journal: Journal,
    config: Settings,
    ledger_path: str = PATH,
    *,
    told_path: str = told.PATH,
    world: World,
    seeing: Optional[Seeing] = None,
) -> Result:
    """A whole remediation, told to the journal. `seeing`: with what the node's recovery from a restart of its runtime
    is judged; None: it is not. Raises HostGone and AlreadyRunning."""
    result: Optional[Result] = None
    try:
        with _only_one(ledger_path + ".lock"), Ledger(ledger_path, this_boot()) as ledger:
            if ledger.set_aside:
                journal.report(Kind.LEDGER_ASIDE, f"the ledger was corrupt and is now {ledger.set_aside}")
            number = ledger.begin_run()
            result = remediate(world, ledger, journal, config)
            if seeing is not None:
                result = _with_recovery(result, seeing, ledger, journal)
            news = ledger.end_run(number, result.status, result.summary, result.plan)
    except LedgerError as error:
        if result is None:
            result = without_ledger(world, config, str(error), Did())
        news = _news(journal, result, result.ledger_problem or str(error), told_path)
    _tell(journal, result, news)
    return result


def _with_recovery(result: Result, seeing: Seeing, ledger: Ledger, journal: Journal) -> Result:
    """A node that has not recovered is an act that did not cure. Raises LedgerError and HostGone."""
    boot, recoverer = this_boot(), Recoverer(seeing, ledger, journal)
    well = recoverer.judge_restarts(boot)
    if recoverer.is_due(boot):
        try:
            seeing.come_back()
        except PeerError as error:
            journal.report(Kind.FAILED, f"the late look at the node's recovery is not arranged for: {error}")
    return result if well else result._replace(status=Exit.NOT_CURED, summary=f"{result.summary}; NOT recovered")


def _news(journal: Journal, result: Result, problem: str, told_path: str) -> tuple[Refusal, ...]:
    """The refusals that are new, where the ledger cannot remember which were told."""
    failed = f"the ledger cannot be used: {problem}"
    refusals = {words.refusal(refusal): refusal for refusal in result.plan.refusals}
    new = told.news((failed, *refusals), time.clock_gettime(time.CLOCK_BOOTTIME), told_path)
    if failed in new:
        journal.report(Kind.FAILED, failed)
    return tuple(refusals[text] for text in new if text in refusals)


def _tell(journal: Journal, result: Result, news: Sequence[Refusal]) -> None:
    """The refusals that are new, and one closing line."""
    for refusal in news:
        journal.report(
            Kind.ALARM if refusal.alarm else Kind.REFUSED,
            words.refusal(refusal),
            subject=refusal.subject,
            refusal=refusal.name,
            ends=refusal.ends,
            alarm=int(refusal.alarm),
        )
    kind = Kind.ALARM if result.status == Exit.NOT_CURED else Kind.DONE
    if result.status != Exit.OWED or news:
        journal.report(kind, f"remediation done: {result.summary}", status=result.status)


def _restart_stale_watcher(journal: Journal) -> None:
    """The last act: the watcher runs from the tree that it was started in, and so does its sandbox. One that has
    failed (its unit was gone with a tree that lacked the product) is started again: nobody else watches."""
    why = stale_watcher(_WATCHER)
    try:
        if why:
            restart_if_running(_WATCHER)
        elif restart_if_failed(_WATCHER):
            why = "it had failed"
        else:
            return
        journal.report(Kind.WATCHER_RESTART, f"restarting {_WATCHER}: {why}", unit=_WATCHER)
    except SystemdError as error:
        journal.report(Kind.FAILED, f"{_WATCHER} was not restarted ({why or 'it may have failed'}): {error}")


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Entry point; returns an Exit.

    The request has been removed by the unit's ExecStartPre= before this looks: what happens from here on makes a
    new one."""
    parser = argparse.ArgumentParser(
        prog="ostreewatchd-remediate",
        description="One remediation; started by ostreewatchd-remediate.path.",
        epilog=all_exits(),
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.parse_args(argv)
    journal = Journal("ostreewatchd-remediate")
    try:
        # What is wrong in the files the watcher tells, once, and not each remediation again.
        config, _ = settings.load()
        world = RealWorld(config)
        result = run(journal, config, world=world, seeing=world)
        _restart_stale_watcher(journal)
        return result.status
    except AlreadyRunning as error:
        journal.report(Kind.FAILED, f"{error}: this one does nothing")
        return Exit.COULD_NOT_KNOW
    except HostGone as error:
        journal.report(Kind.FAILED, f"the host cannot be looked at: {error}")
        print(f"ostreewatchd-remediate: {error}", file=sys.stderr)
        return Exit.COULD_NOT_KNOW
    except Exception as error:  # noqa: BLE001  An uncaught exception would exit with 1, which says "owed, refused".
        journal.report(Kind.FAILED, last_words(error))
        return Exit.COULD_NOT_KNOW
    finally:
        journal.close()

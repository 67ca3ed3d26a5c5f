# SPDX-License-Identifier: Apache-2.0
"""One remediation: removes the request, looks for itself, and acts one step at a time until nothing is owed or
all that is left is refused. The program of ostreewatchd-remediate.service."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional

import msgspec

from ostreewatchd import __version__, settings, settle
from ostreewatchd.act.cure import CURED, NOT_CURED, Curer
from ostreewatchd.act.world import RealWorld, World
from ostreewatchd.judge import judge
from ostreewatchd.ledger import PATH, Ledger, LedgerError
from ostreewatchd.model import Finding, History, Plan, Snapshot, Switch
from ostreewatchd.observe.host import HostGone
from ostreewatchd.observe.own_tree import stale_watcher
from ostreewatchd.parse.settings import Settings
from ostreewatchd.peers.systemd import SystemdActs, SystemdError
from ostreewatchd.plan import plan as make_plan
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal, Kind
from ostreewatchd.wanted import WANTED

NOTHING_OWED, OWED, USAGE, COULD_NOT_KNOW, NOT_CURED_STATUS = 0, 1, 2, 3, 4
_MAX_ROUNDS = 300
_MAX_IDLE_ROUNDS = 3
_WATCHER = "ostreewatchd.service"


class Result(NamedTuple):
    """How a remediation ended. `status` is the exit status."""

    status: int
    summary: str
    plan: Plan


class AlreadyRunning(Exception):
    """Another remediation holds the lock."""


def remediate(world: World, ledger: Ledger, journal: Journal, config: Settings) -> Result:
    """Look, act, look again. Bounded: each round does a step, or is one of a few that could not."""
    curer = Curer(world, ledger, journal, config)
    acted = idle = 0
    failed = False
    for _ in range(_MAX_ROUNDS):
        snapshot = world.look(ledger.history(), deep=True)
        findings = judge(snapshot)
        switch = _record_switch(ledger, snapshot, config)
        # With the switch that was just recorded: an act of an older one is over and waits for no proof.
        snapshot = msgspec.structs.replace(snapshot, history=ledger.history())
        resumed = [curer.resume(act, snapshot).name for act in snapshot.history.acts if not act.outcome]
        failed |= NOT_CURED in resumed
        if any(resumed):
            continue  # Time has passed: look again.
        plan = make_plan(snapshot, findings, config)
        if not plan.steps or switch is None or failed or idle >= _MAX_IDLE_ROUNDS:
            return _result(plan, findings, acted, failed)
        outcome = curer.cure(plan.steps[0], snapshot, switch)
        if outcome.name == CURED:
            acted, idle = acted + 1, 0
        elif outcome.name == NOT_CURED:
            failed = True
        else:
            idle += 1
            world.sleep(1.0)
    return Result(COULD_NOT_KNOW, f"not done after {_MAX_ROUNDS} rounds", Plan())


def _record_switch(ledger: Ledger, snapshot: Snapshot, config: Settings) -> Optional[Switch]:
    """The switch that the live state is, with an id of its own; None while one is under way."""
    if settle.in_progress(snapshot.flags, complete=settle.complete(snapshot), cap=config.settle_cap):
        return None
    names = snapshot.live.deployments
    return ledger.record_switch(snapshot.live.fingerprint, snapshot.node.boot_id, names.etc or names.booted)


def _result(plan: Plan, findings: Sequence[Finding], acted: int, failed: bool) -> Result:
    owed = len({finding.subject.key for finding in findings if finding.owed})
    done = f"{acted} restarted and cured" if acted else "nothing restarted"
    if failed:
        return Result(NOT_CURED_STATUS, f"{done}; a restart did not cure", plan)
    if owed:
        return Result(OWED, f"{done}; {owed} owed, {len(plan.refusals)} refused", plan)
    return Result(NOTHING_OWED, f"{done}; nothing owed", plan)


@contextlib.contextmanager
def _only_one(path: str) -> Iterator[None]:
    """Hold the lock file for the run. Raises AlreadyRunning, or OSError where it cannot be made."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(f"another remediation holds {path}") from None
        yield
    finally:
        os.close(fd)


def run(journal: Journal, config: Settings, ledger_path: str = PATH) -> Result:
    """A whole remediation on this host. Raises HostGone and AlreadyRunning."""
    world = RealWorld(config)
    try:
        os.makedirs(os.path.dirname(ledger_path), mode=0o755, exist_ok=True)
        with _only_one(ledger_path + ".lock"), Ledger(ledger_path) as ledger:
            if ledger.set_aside:
                journal.report(Kind.LEDGER_ASIDE, f"the ledger was corrupt and is now {ledger.set_aside}")
            number = ledger.begin_run()
            result = remediate(world, ledger, journal, config)
            ledger.end_run(number, result.status, result.summary, result.plan)
            return result
    except (LedgerError, OSError) as error:
        # No ledger, no act: what is owed is told with that as the refusal.
        journal.report(Kind.FAILED, f"the ledger cannot be used: {error}")
        snapshot = world.look(History(problem=str(error)), deep=True)
        findings = judge(snapshot)
        return _result(make_plan(snapshot, findings, config), findings, 0, False)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Entry point. Exit status: 0 nothing owed, 1 owed and refused, 2 usage, 3 could not know, 4 not cured."""
    parser = argparse.ArgumentParser(prog="ostreewatchd-remediate", description=__doc__)
    parser.add_argument("--version", action="version", version=__version__)
    parser.parse_args(argv)
    journal = Journal("ostreewatchd-remediate")
    try:
        # The request is removed before the look: what happens after it makes a new one.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(WANTED)
        config, complaints = settings.load()
        for complaint in complaints:
            journal.report(Kind.CONFIG, str(complaint), file=complaint.file, line=complaint.line)
        result = run(journal, config)
        _report(journal, result)
        _restart_stale_watcher(journal)
        return result.status
    except AlreadyRunning as error:
        journal.report(Kind.FAILED, f"{error}: this one does nothing")
        return COULD_NOT_KNOW
    except HostGone as error:
        journal.report(Kind.FAILED, f"the host cannot be looked at: {error}")
        print(f"ostreewatchd-remediate: {error}", file=sys.stderr)
        return COULD_NOT_KNOW
    finally:
        journal.close()


def _report(journal: Journal, result: Result) -> None:
    for refusal in result.plan.refusals:
        journal.report(
            Kind.REFUSED,
            words.refusal(refusal),
            subject=refusal.subject,
            refusal=refusal.name,
            ends=refusal.ends,
            alarm=int(refusal.alarm),
        )
    kind = Kind.NOTHING_OWED if result.status == NOTHING_OWED else Kind.REFUSED
    if result.status == NOT_CURED_STATUS:
        kind = Kind.NOT_CURED
    if result.status != OWED:
        journal.report(kind, f"remediation done: {result.summary}", status=result.status)


def _restart_stale_watcher(journal: Journal) -> None:
    """The last act: the watcher runs from the tree that it was started in, and so does its sandbox."""
    why = stale_watcher(_WATCHER)
    if not why:
        return
    try:
        with SystemdActs() as systemd:
            systemd.restart_if_running(_WATCHER)
        journal.report(Kind.INTENT, f"restarting {_WATCHER}: {why}", unit=_WATCHER)
    except SystemdError as error:
        journal.report(Kind.FAILED, f"{_WATCHER} is stale ({why}) and was not restarted: {error}")

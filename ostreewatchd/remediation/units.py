# SPDX-License-Identifier: Apache-2.0
"""Carries out one step for a unit: intent, another look, the job, proof, outcome.

Which start of the unit an act is for is written down with its intent: after an interruption another start tells that
the restart has happened, the same one that it has not, and of a start that is somebody else's nothing is ended."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.judge import judge
from ostreewatchd.ledger import Ledger
from ostreewatchd.model import PastAct, Service, Settings, Snapshot, Step, Subject, Switch
from ostreewatchd.peers.errors import PeerError
from ostreewatchd.plan import plan as make_plan
from ostreewatchd.remediation.outcome import Outcome, concluded
from ostreewatchd.remediation.world import World
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal, Kind

_PROOF_INTERVAL = 1.0
_RESUMED = 60.0
"""Seconds on top of ProofSec for an act that an earlier run began."""


class UnitCurer:
    """Does steps for one run."""

    def __init__(self, world: World, ledger: Ledger, journal: Journal, settings: Settings) -> None:
        self._world = world
        self._ledger = ledger
        self._journal = journal
        self._settings = settings

    def cure(self, step: Step, snapshot: Snapshot, switch: Switch) -> Outcome:
        """Do one step. Raises LedgerError before the job is asked for: then nothing was done."""
        subject = step.subject
        begun = next((one for one in snapshot.history.acts if _is_open_for(one, step)), None)
        act = begun.id if begun is not None else self._ledger.intend(switch, step)
        again = self._world.look(self._ledger.history(), deep=True)
        why = self._why_not(again, step, switch)
        if why:
            return self._conclude(act, subject, Outcome("not-done", why))
        self._journal.report(Kind.INTENT, words.step(step), subject=subject, switch=switch.id, act=act)
        if step.kind == "restart-unit":
            self._ledger.remember_before(act, self._world.sample())
        started = self._world.monotonic()
        try:
            ran = self._world.run_unit(step)
        except PeerError as error:
            # Whether it was taken up is not known: the start that runs tells, at the next look or in the next run.
            self._journal.report(Kind.FAILED, f"{subject}: {error}", subject=subject)
            return Outcome("", str(error))
        if not ran.asked:
            return self._conclude(act, subject, Outcome("not-done", ran.said))
        self._ledger.restarted(act, ran.successor)
        limit = self._settings.proof + step.allowance
        return self._conclude(act, subject, self._prove(step.kind, step.invocation, subject, started, limit, ran.said))

    def resume(self, act: PastAct, snapshot: Snapshot) -> Outcome:
        """Find out how an act ended whose outcome an interruption kept from being written."""
        switch = snapshot.history.switch
        if switch is None or act.switch_id != switch.id or act.boot_id != snapshot.node.boot_id:
            return self._conclude(act.id, act.subject, Outcome("abandoned", "another switch came before its outcome"))
        service = _service(snapshot, act.subject)
        if service is not None and service.busy:
            return Outcome("", "systemd is still at work on it")
        if service is not None and service.invocation == act.invocation and act.step == "restart-unit":
            return self._conclude(act.id, act.subject, Outcome("not-done", "interrupted before it was restarted"))
        if service is not None and not act.successor:
            self._ledger.restarted(act.id, service.invocation)
        started, limit = self._world.monotonic(), self._settings.proof + _RESUMED
        outcome = self._prove(act.step, act.invocation, act.subject, started, limit, "resumed")
        return self._conclude(act.id, act.subject, outcome)

    def _why_not(self, again: Snapshot, step: Step, switch: Switch) -> str:
        """By a look at this moment; empty: it is as it was planned."""
        if again.torn:
            return again.torn
        if again.live.fingerprint != switch.fingerprint:
            return "another switch came before it"
        made = make_plan(again, judge(again), self._settings)
        mine = next((one for one in made.steps if one.subject == step.subject and one.kind == step.kind), None)
        if mine is not None and mine.invocation == step.invocation:
            return ""
        if mine is not None:
            return "somebody else has restarted it meanwhile"
        refused = [one for one in made.refusals if one.subject in (None, step.subject)]
        return "; ".join(one.because for one in refused) or "a second look found nothing that it is behind with"

    def _prove(self, kind: str, before: str, subject: Subject, started: float, limit: float, said: str) -> Outcome:
        """Look until it answers as another start and is behind with nothing, no longer than the limit."""
        text, failure = "", "unit-will-not-start"
        while True:
            snapshot = self._world.look(self._ledger.history(), deep=True)
            service = _service(snapshot, subject)
            waited = self._world.monotonic() - started
            if service is None:
                text, failure = f"{subject} has no process that systemd knows of", "unit-will-not-start"
            elif kind == "restart-unit" and service.invocation in ("", before):
                text, failure = f"{subject} was not started anew", "unit-will-not-start"
            elif not service.ready:
                text, failure = f"{subject} does not answer", "unit-will-not-start"
            else:
                behind = [one for one in judge(snapshot) if one.owed and one.subject.key == subject.key]
                if not behind:
                    proof = f"{_as_started(service)}; {waited:.1f} s after it was asked ({said})"
                    return Outcome("cured", proof, True)
                text, failure = behind[0].reason, "still-stale"
            if waited >= limit and snapshot.node_runtime is None:
                # Nobody says how it is: the next run asks again.
                self._journal.report(Kind.FAILED, f"{subject}: {text}", subject=subject)
                return Outcome("", text)
            if waited >= limit:
                proof = f"{failure}: {text} {limit:g} s after it was asked ({said})"
                return Outcome("not-cured", proof, True, failure)
            self._world.sleep(_PROOF_INTERVAL)

    def _conclude(self, act: int, subject: Subject, outcome: Outcome) -> Outcome:
        if not outcome.name:
            return outcome
        return concluded(self._ledger, self._journal, act, subject, outcome)


def _service(snapshot: Snapshot, subject: Subject) -> Optional[Service]:
    runtime = snapshot.node_runtime
    services = (runtime.service, runtime.kubelet) if runtime is not None else ()
    return next((one for one in services if one is not None and one.unit == subject.unit), None)


def _as_started(service: Service) -> str:
    return f"{service.unit} is another start ({service.invocation[:8]}) and has all that is there now"


def _is_open_for(act: PastAct, step: Step) -> bool:
    return not act.outcome and act.subject.key == step.subject.key and act.invocation == step.invocation

# SPDX-License-Identifier: Apache-2.0
"""Carries out one step: intent, another look, the stop, proof, outcome."""

from __future__ import annotations

from typing import NamedTuple, Optional

import msgspec

from ostreewatchd import settle
from ostreewatchd.judge import judge
from ostreewatchd.ledger import Ledger
from ostreewatchd.model import (
    History,
    OutcomeName,
    PastAct,
    RuntimeView,
    Settings,
    Snapshot,
    Step,
    Subject,
    Switch,
)
from ostreewatchd.peers.cri.errors import AnswerUnclear, RuntimeLost, RuntimeSilent
from ostreewatchd.peers.errors import PeerError
from ostreewatchd.remediation.proof import Proof, prove
from ostreewatchd.remediation.world import World
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal, Kind

_PROOF_INTERVAL = 0.25
_RESUMED = 120.0
"""Seconds on top of ProofSec for an act that an earlier run began: what it allowed for is not known any more."""
_WAITS_FOR_NUMBER = 8
"""Looks for which a proof waits for kubelet's number of the attempt: the log that has it comes a little later."""


class Outcome(NamedTuple):
    """How an act ended; empty `name`: nothing was done and nothing is known to have changed."""

    name: OutcomeName
    text: str
    stopped: bool = False
    failure: str = ""
    """As PastAct.failure."""


class Curer:
    """Does steps for one run."""

    def __init__(self, world: World, ledger: Ledger, journal: Journal, settings: Settings) -> None:
        self._world = world
        self._ledger = ledger
        self._journal = journal
        self._settings = settings

    def cure(self, step: Step, snapshot: Snapshot, switch: Switch) -> Outcome:
        """Do one step. Raises LedgerError before the stop: then nothing was done."""
        act = _open_act(snapshot.history, switch, step)
        if act is None:
            act = self._ledger.intend(switch, step)
        again = self._world.look(History(), deep=False)
        if again.live.fingerprint != switch.fingerprint:
            return self._conclude(act, step.subject, Outcome("superseded", "another switch came before the stop"))
        if again.torn:
            return Outcome("", again.torn)
        if not self._still_owed(again, step):
            return self._conclude(act, step.subject, Outcome("not-needed", "a second look no longer found it stale"))
        if settle.in_progress(again.flags, complete=settle.complete(again), cap=self._settings.settle_cap):
            return Outcome("", "a switch began meanwhile")
        if msgspec.structs.replace(again, history=self._ledger.history()).pause is not None:
            return Outcome("", "a pause was ordered meanwhile")
        socket = snapshot.runtime.socket if snapshot.runtime else ""
        self._journal.report(Kind.INTENT, words.step(step), subject=step.subject, switch=switch.id, act=act)
        started = self._world.monotonic()
        try:
            said = self._world.stop(step, socket)
        except (RuntimeSilent, RuntimeLost, AnswerUnclear) as error:
            said = str(error)  # Whether it took effect, the proof will tell.
        except PeerError as error:
            self._journal.report(Kind.FAILED, f"{step.subject}: not stopped: {error}", subject=step.subject)
            return Outcome("", str(error))
        limit = self._settings.proof + step.allowance
        return self._conclude(act, step.subject, self._prove(step.subject, step.kind, switch, started, said, limit))

    def resume(self, act: PastAct, snapshot: Snapshot) -> Outcome:
        """Find out how an act ended whose outcome an interruption kept from being written. The container itself
        still running is no end: the plan takes the act up again."""
        switch = snapshot.history.switch
        if switch is None or act.switch_id != switch.id:
            return self._conclude(act.id, act.subject, Outcome("abandoned", "another switch came before its outcome"))
        if snapshot.container(act.subject.container_id) is not None:
            return Outcome("", "it still runs")
        limit = self._settings.proof + _RESUMED
        outcome = self._prove(act.subject, act.step, switch, self._world.monotonic(), "resumed", limit)
        return self._conclude(act.id, act.subject, outcome)

    def _still_owed(self, snapshot: Snapshot, step: Step) -> bool:
        return any(one.owed and one.subject.container_id == step.subject.container_id for one in judge(snapshot))

    def _prove(self, subject: Subject, kind: str, switch: Switch, started: float, said: str, limit: float) -> Outcome:
        """Look until the successor is there and fresh, no longer than `limit` seconds."""
        proof = Proof("not-yet", "")
        waits_for_number = _WAITS_FOR_NUMBER
        for _ in range(int(limit / _PROOF_INTERVAL) + 1):
            snapshot = self._world.look(History(), deep=False)
            proof = prove(snapshot, subject)
            waited = self._world.monotonic() - started
            numbered = proof.attempt is not None or not waits_for_number or waited >= limit
            if proof.verdict == "cured" and not numbered:
                waits_for_number -= 1
            elif proof.verdict == "cured":
                return Outcome("cured", f"{proof.text}; {waited:.1f} s after the stop ({said})", True)
            if snapshot.live.fingerprint != switch.fingerprint:
                return Outcome("superseded", f"another switch came before the proof: {proof.text}", True)
            if waited >= limit:
                break
            self._world.sleep(_PROOF_INTERVAL)
        runtime = self._world.look(History(), deep=True).runtime
        if runtime is not None and not runtime.problem and _is_gone(runtime, kind, subject):
            return Outcome("pod-gone", "the runtime has no such pod any more", True)
        failure = proof.failure
        if failure == "container-will-not-start" and kind == "stop-sandbox":
            failure = "sandbox-will-not-start"
        return Outcome("not-cured", f"{failure}: {proof.text} {limit:g} s after the stop ({said})", True, failure)

    def _conclude(self, act: int, subject: Subject, outcome: Outcome) -> Outcome:
        self._ledger.conclude(act, outcome.name, outcome.text, outcome.failure)
        kind = {"cured": Kind.CURED, "not-cured": Kind.NOT_CURED}.get(outcome.name, Kind.ENDED)
        self._journal.report(
            kind,
            f"{subject}: {outcome.name}: {outcome.text}",
            subject=subject,
            proof=outcome.text,
            act=act,
            outcome=outcome.name,
            failure=outcome.failure or None,
        )
        return outcome


def _is_gone(runtime: RuntimeView, kind: str, subject: Subject) -> bool:
    """After a sandbox stop, kubelet may still have to make another: an ended one is listed as long as the pod is."""
    return not (runtime.has_pod(subject.pod_uid) if kind == "stop-sandbox" else runtime.has_ready_pod(subject.pod_uid))


def _open_act(history: History, switch: Switch, step: Step) -> Optional[int]:
    """The intent for this very container that has no outcome yet."""
    for act in history.acts:
        if act.switch_id == switch.id and act.subject.container_id == step.subject.container_id and not act.outcome:
            return act.id
    return None

# SPDX-License-Identifier: Apache-2.0
"""Carries out one step: intent, another look, the stop, proof, outcome."""

from __future__ import annotations

from typing import NamedTuple, Optional

import msgspec

from ostreewatchd import settle
from ostreewatchd.judge import judge
from ostreewatchd.ledger import Ledger
from ostreewatchd.model import (
    Finding,
    History,
    OutcomeName,
    PastAct,
    Settings,
    Snapshot,
    Step,
    Subject,
    Switch,
)
from ostreewatchd.peers.cri.errors import AnswerUnclear, RuntimeLost, RuntimeRefused, RuntimeSilent
from ostreewatchd.peers.errors import PeerError
from ostreewatchd.remediation.outcome import Outcome, concluded
from ostreewatchd.remediation.proof import Proof, has_directory, is_forgotten, is_gone, prove
from ostreewatchd.remediation.tokenproof import Expected, expected
from ostreewatchd.remediation.world import World
from ostreewatchd.report import words
from ostreewatchd.report.journal import Journal, Kind

_PROOF_INTERVAL = 0.25
_RESUMED = 120.0
"""Seconds on top of ProofSec for an act that an earlier run began: what it allowed for is not known any more."""
_STOP_MAY_COME = 120.0
"""Seconds after an intent in which the runtime may still be at work on the stop that an earlier run asked for: twice
the longest deadline of a call."""
_AFTER_REFUSAL = 3.0
"""Seconds in which a container may still end whose stop the runtime refused: it may have sent the signal, and have
failed only to see the end. (containerd internal/cri/server/container_stop.go)"""
_ASKS_EVERY = 5.0
"""Seconds after which it is asked whether the pod is there at all, of one that does not come back."""
_WAITS_FOR_NUMBER = 8
"""Looks for which a proof waits for kubelet's number of the attempt: the log that has it comes a little later."""


class _Proving(NamedTuple):
    """What a proof is of, and how long it may take."""

    switch: Switch
    kind: str
    """Of the step."""
    started: float
    """By World.monotonic."""
    limit: float
    """Seconds."""
    tokens: Expected
    """What its container must have written anew."""
    had_directory: bool
    """Kubelet had a directory of the pod: once that is gone, so is the pod."""


class Curer:
    """Does steps for one run."""

    def __init__(self, world: World, ledger: Ledger, journal: Journal, settings: Settings) -> None:
        self._world = world
        self._ledger = ledger
        self._journal = journal
        self._settings = settings

    def cure(self, step: Step, snapshot: Snapshot, switch: Switch) -> Outcome:
        """Do one step. Raises LedgerError before the stop: then nothing was done."""
        begun = _open_act(snapshot.history, switch, step)
        act = begun.id if begun is not None else self._ledger.intend(switch, step)

        def left(why: str) -> Outcome:
            # What an earlier run asked for may still come: such an act stays open.
            return self._conclude(act, step.subject, Outcome("not-done", why)) if begun is None else Outcome("", why)

        again = self._world.look(History(), deep=False)
        if again.live.fingerprint != switch.fingerprint:
            name: OutcomeName = "not-done" if begun is None else "superseded"
            return self._conclude(act, step.subject, Outcome(name, "another switch came before the stop"))
        if again.torn:
            return left(again.torn)
        if begun is not None and again.container(step.subject.container_id) is None:
            return left("what an earlier run asked for came between two looks")  # The next look has its proof.
        if not self._still_owed(again, step):
            doubt = _doubt(again, step)
            if doubt:
                return left(f"a second look does not find that a restart would cure it: {doubt}")
            return self._conclude(act, step.subject, Outcome("not-needed", "a second look no longer found it stale"))
        if settle.in_progress(again.flags, complete=settle.complete(again), cap=self._settings.settle_cap):
            return left("a switch began meanwhile")
        if msgspec.structs.replace(again, history=self._ledger.history()).pause is not None:
            return left("a pause was ordered meanwhile")
        socket = snapshot.runtime.socket if snapshot.runtime else ""
        self._journal.report(Kind.INTENT, words.step(step), subject=step.subject, switch=switch.id, act=act)
        started = self._world.monotonic()
        try:
            said = self._world.stop(step, socket)
        except (RuntimeSilent, AnswerUnclear) as error:
            said = str(error)  # Whether it took effect, the proof will tell.
        except RuntimeLost as error:
            # A runtime that was restarted meanwhile took the request along, or has ended the container.
            if self._runs_on(step.subject, _AFTER_REFUSAL + step.grace):
                self._journal.report(Kind.FAILED, f"{step.subject}: not stopped: {error}", subject=step.subject)
                return left(str(error))
            said = str(error)
        except PeerError as error:
            self._journal.report(Kind.FAILED, f"{step.subject}: not stopped: {error}", subject=step.subject)
            if not isinstance(error, RuntimeRefused) or self._runs_on(step.subject, _AFTER_REFUSAL):
                return left(str(error))
            said = str(error)
        limit = self._settings.proof + step.allowance
        proving = _Proving(
            switch, step.kind, started, limit, expected(snapshot, step.subject), has_directory(snapshot, step.subject)
        )
        return self._conclude(act, step.subject, self._prove(step.subject, proving, said))

    def resume(self, act: PastAct, snapshot: Snapshot) -> Outcome:
        """Find out how an act ended whose outcome an interruption kept from being written. While the stop may still
        come, the container itself still running is no end: the plan takes the act up again."""
        switch = snapshot.history.switch
        if switch is None or act.switch_id != switch.id:
            return self._conclude(act.id, act.subject, Outcome("abandoned", "another switch came before its outcome"))
        if snapshot.container(act.subject.container_id) is not None:
            if _may_still_come(act, snapshot):
                return Outcome("", "it still runs")
            return self._conclude(act.id, act.subject, Outcome("not-done", "interrupted, and it still runs"))
        limit = self._settings.proof + _RESUMED
        # What it must have brought was known to the run that was interrupted.
        proving = _Proving(switch, act.step, self._world.monotonic(), limit, {}, has_directory(snapshot, act.subject))
        return self._conclude(act.id, act.subject, self._prove(act.subject, proving, "resumed"))

    def _runs_on(self, subject: Subject, limit: float) -> bool:
        """Whether the container still runs `limit` seconds after its stop failed. A torn look tells nothing: then it
        is the proof's to find out."""
        since = self._world.monotonic()
        while True:
            snapshot = self._world.look(History(), deep=False)
            if not snapshot.torn and snapshot.container(subject.container_id) is None:
                return False
            if self._world.monotonic() - since >= limit:
                return not snapshot.torn
            self._world.sleep(_PROOF_INTERVAL)

    def _still_owed(self, snapshot: Snapshot, step: Step) -> bool:
        return any(one.owed for one in _findings(snapshot, step))

    def _prove(self, subject: Subject, proving: _Proving, said: str) -> Outcome:
        """Look until the successor is there and fresh, no longer than the limit; or until the pod is gone."""
        proof = Proof("not-yet", "")
        waits_for_number = _WAITS_FOR_NUMBER
        asks_at, limit = _ASKS_EVERY, proving.limit
        for _ in range(int(limit / _PROOF_INTERVAL) + 1):
            snapshot = self._world.look(History(), deep=False)
            proof = prove(snapshot, subject, proving.tokens)
            if proof.verdict == "cured" and proving.tokens:
                # Whether the API server takes it too, only a look that asks tells.
                proof = prove(self._world.look(History(), deep=True), subject, proving.tokens)
            waited = self._world.monotonic() - proving.started
            numbered = proof.attempt is not None or not waits_for_number or waited >= limit
            if proof.verdict == "cured" and not numbered:
                waits_for_number -= 1
            elif proof.verdict == "cured":
                return Outcome("cured", f"{proof.text}; {waited:.1f} s after the stop ({said})", True)
            if snapshot.live.fingerprint != proving.switch.fingerprint:
                return Outcome("superseded", f"another switch came before the proof: {proof.text}", True)
            if waited >= limit:
                break
            if proving.had_directory and proof.failure == "container-will-not-start" and waited >= asks_at:
                asks_at = waited + _ASKS_EVERY
                if is_forgotten(self._world.look(History(), deep=True), subject):
                    return Outcome("pod-gone", "kubelet has forgotten the pod, and its sandbox has ended", True)
            self._world.sleep(_PROOF_INTERVAL)
        runtime = self._world.look(History(), deep=True).runtime
        if runtime is not None and not runtime.problem and is_gone(runtime, proving.kind, subject):
            return Outcome("pod-gone", "the runtime has no such pod any more", True)
        failure = proof.failure
        if failure == "container-will-not-start" and proving.kind == "stop-sandbox":
            failure = "sandbox-will-not-start"
        return Outcome("not-cured", f"{failure}: {proof.text} {limit:g} s after the stop ({said})", True, failure)

    def _conclude(self, act: int, subject: Subject, outcome: Outcome) -> Outcome:
        return concluded(self._ledger, self._journal, act, subject, outcome)


def _findings(snapshot: Snapshot, step: Step) -> list[Finding]:
    return [one for one in judge(snapshot) if one.subject.container_id == step.subject.container_id]


def _doubt(snapshot: Snapshot, step: Step) -> str:
    """Why it is not known that the container shows what the host has, though no restart is due; empty: it does."""
    container = snapshot.container(step.subject.container_id)
    binds = container.binds if container is not None else ()
    due = {bind.path for bind in binds if not bind.via and snapshot.cni_directory_of(bind.host_path)}
    doubts = (one for one in _findings(snapshot, step) if one.verdict in ("stale", "unknown") and one.inside in due)
    return next((one.reason for one in doubts), "")


def _open_act(history: History, switch: Switch, step: Step) -> Optional[PastAct]:
    """The intent for this very container that has no outcome yet."""
    for act in history.acts:
        if act.switch_id == switch.id and act.subject.container_id == step.subject.container_id and not act.outcome:
            return act
    return None


def _may_still_come(act: PastAct, snapshot: Snapshot) -> bool:
    """Whether the stop that was asked for may still happen: the runtime is within the time that it may take, or does
    not answer and may have the request in its queue. One of an earlier boot may not."""
    if snapshot.runtime is None or snapshot.runtime.problem:
        return True
    if not act.boot_id:
        return snapshot.taken_at - act.intent_at < _STOP_MAY_COME
    same = act.boot_id == snapshot.node.boot_id
    return same and snapshot.taken_boottime - act.intent_boottime < _STOP_MAY_COME

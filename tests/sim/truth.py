# SPDX-License-Identifier: Apache-2.0
"""What must hold, said by the node's own state and never by the product's: DESIGN's invariants by number.

A stop is judged by what was true at the looks that it rests on: nobody can know what happens after the last one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, get_args

import msgspec

from ostreewatchd.model import STOPPED_NOTHING, Exit, OutcomeName, Settings, Snapshot, Step, Window
from ostreewatchd.model import Subject as ActSubject
from ostreewatchd.platforms import GENERIC
from ostreewatchd.remediation.loop import Result

if TYPE_CHECKING:
    from tests.sim.node import Node, Process
    from tests.sim.pods import Subject

_LOOKED_LATELY = 1.0
"""Seconds from the last look to the stop: nothing that waits is between."""
_LONGEST_RUN, _LONGEST_BACK_OFF = 900.0, 60.0


class Broken(BaseException):
    """An invariant does not hold. No `except Exception` of the product may hide it."""

    def __init__(self, number: str, what: str) -> None:
        super().__init__(f"invariant {number}: {what}")
        self.number = number


class Facts(NamedTuple):
    """What is true of the node at one moment."""

    stale: dict[str, Subject]
    """By container id: runs, and its bind is another directory than the host's."""
    fresh: dict[tuple[str, str], str]
    """Key: id of the container that runs and shows what the host has."""
    started: dict[str, float]
    hidden: frozenset[str]
    """Ids of those that cannot be looked into."""
    lost: frozenset[str]
    """Ids of those that have configuration which the host lacks."""
    down: dict[tuple[str, str], str]
    """Key: id of the container that has ended, of those whose pod's sandbox is up."""
    ready: frozenset[str]
    """Uids of pods whose sandbox is up."""
    epoch: int
    epoch_began: float
    fingerprint: str
    mounting: str
    system: str
    lists: bool
    transaction: bool
    would_start: bool
    helps: dict[str, str]
    """By id: the smallest rung that would give it what the host has; empty: none."""


class Seen(NamedTuple):
    """A look of a remediation: when, what was true at its begin and at its end, and what it took for live."""

    at: float
    began: Facts
    facts: Facts
    fingerprint: str
    hidden: frozenset[str]
    """Of which containers it could not see what they show."""
    wall: float
    """What its clock said."""


class Act(NamedTuple):
    """A row of the ledger."""

    id: int
    switch: str
    step: str
    subject: ActSubject
    outcome: str


class _Pause(NamedTuple):
    """An order to restart nothing: when it began and for how long."""

    began: float
    seconds: float
    boot: int


class Truth:
    """The checks of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._facts: Optional[tuple[int, Facts]] = None
        self.stops: Counter[tuple[int, tuple[str, str], str]] = Counter()
        """Containers that ran and were stopped by the product: by switch, subject and rung."""
        self.stopped_ids: set[str] = set()
        self.acts: dict[int, Act] = {}
        """As far as they were committed to the present ledger."""
        self.switches: dict[str, float] = {}
        """Id: when it was committed to the present ledger."""
        self.stepped_at = -1.0
        """When the wall clock was last stepped."""
        self._step: Optional[Step] = None
        self._asked_in = 0
        self._content: object = None
        self._inode = 0
        self._stopped_at: list[tuple[float, int]] = []
        self._pause: Optional[_Pause] = None
        self._may_know: set[str] = set()
        """Containers of acts without outcome in a file of which nobody knows what can be read."""
        self.forgot_at = -1.0
        """When a ledger was last lost."""

    def forget(self, *, maybe: bool = False) -> None:
        """The ledger is gone: nothing that it knew counts any more. `maybe`: something of it may still be read."""
        self._may_know = (
            {act.subject.container_id for act in self.acts.values() if not act.outcome} if maybe else set()
        )
        if self.switches:
            self.forgot_at = self._node.timeline.now
        for process in self._node.processes:
            process.switches = (*process.switches, *self.switches.values())
            for act in self.acts.values():
                if not act.outcome:
                    process.intended.setdefault(act.subject.container_id, 0.0)
        self.acts.clear()
        self.switches.clear()

    # --- what is true

    def facts(self) -> Facts:
        node = self._node
        version = node.eyes.version
        if self._facts is None or self._facts[0] != version:
            self._facts = (version, self._take())
        return self._facts[1]

    def _take(self) -> Facts:
        host, node = self._node.host, self._node
        cni = host.cni
        running = [one for one in node.subjects if one.runs]
        return Facts(
            stale={one.id: one for one in running if one.shows != cni.inode and one.writable},
            fresh={one.key: one.id for one in running if one.shows == cni.inode},
            started={one.id: one.started for one in running},
            hidden=frozenset(one.id for one in running if one.blind),
            lost=frozenset(one.id for one in running if set(one.names) - set(cni.names)),
            down={one.key: one.dead.id for one in node.subjects if not one.runs and one.sandbox_ready and one.dead},
            ready=frozenset(one.uid for one in node.subjects if one.sandbox_ready),
            epoch=host.epoch,
            epoch_began=host.epoch_began,
            fingerprint=host.fingerprint,
            mounting="a flag says mounting"
            if host.mounting
            else "a switch is half done"
            if host.partial and host.flags
            else "",
            system=node.eyes.system,
            lists=node.runtime.lists,
            transaction=bool(node.eyes.transaction),
            would_start=node.kubelet.would_start(),
            helps={one.id: self._helps(one) for one in running},
        )

    def _helps(self, subject: Subject) -> str:
        inode, keeps = self._node.host.cni.inode, self._node.runtime.keeps
        if subject.shim is None or subject.shim.inode == inode:
            return "stop-container"
        return "stop-sandbox" if keeps is None or keeps.inode == inode else ""

    # --- a remediation

    def began(self, process: Process, config: Settings) -> None:
        process.config = config

    def looked(self, process: Process, snapshot: Snapshot, began: Facts, *, deep: bool) -> None:
        hidden = frozenset(one.id for one in snapshot.containers if one.binds[0].sight.identity is None)
        now, facts = self._node.timeline.now, self.facts()
        seen = Seen(now, began, facts, snapshot.live.fingerprint, hidden, snapshot.taken_at)
        if seen.at - process.began > _LONGEST_RUN:
            raise Broken("8", f"a remediation takes longer than {_LONGEST_RUN:.0f} s")
        process.last = seen
        if deep:
            process.deep = seen
            for act in self.acts.values():
                if not act.outcome:
                    process.intended.setdefault(act.subject.container_id, 0.0)

    def ended(self, process: Process, result: Result) -> None:
        if result.status == Exit.NOTHING_OWED and process.deep is not None:
            facts = process.deep.facts
            left = [one.name for id, one in facts.stale.items() if id not in facts.hidden and facts.helps[id]]
            if left and process.deep.fingerprint == facts.fingerprint:
                raise Broken("12", f"it says that nothing is owed, and {left} were stale at its last look")

    def stopping(self, process: Process, step: Step) -> None:
        """The product asks the runtime to stop a container."""
        id, name = step.subject.container_id, str(step.subject)
        self._step, self._asked_in = step, self._node.host.epoch
        now, last, deep = self._node.timeline.now, process.last, process.deep
        if last is None or now - last.at > _LOOKED_LATELY:
            raise Broken("6", f"{name} is stopped without another look right before")
        facts = last.facts
        if last.fingerprint != facts.fingerprint:
            raise Broken("4", f"{name} is stopped after a torn look")
        intent = next((act for act in self.acts.values() if act.subject.container_id == id and not act.outcome), None)
        if intent is None and id not in process.intended and id not in self._may_know:
            raise Broken("6", f"{name} is stopped and no intent is on disk")
        if not self._node.disk.is_synced:
            raise Broken("6", f"{name} is stopped and a power cut would take its intent back")
        if now - process.intended.get(id, 0.0) < now - last.at:
            raise Broken("6", f"{name} is stopped and the last look is older than the intent")
        if id not in facts.started:
            return  # It ended during the look: the runtime will find nothing to stop.
        if id not in facts.stale:
            raise Broken("4", f"{name} is stopped and was not stale at the last look")
        if id in last.hidden:
            raise Broken("4", f"{name} is stopped and could not be looked into")
        if facts.mounting:
            raise Broken("4", f"{name} is stopped while {facts.mounting}")
        self._alone(deep.facts, step)
        self._may_be_stopped(process, deep.facts, facts, step)
        self._in_order(process, deep.facts, step)

    def _alone(self, deep: Facts, step: Step) -> None:
        """Never two of those that the product has stopped are down at once."""
        known = {act.subject.container_id for act in self.acts.values()}
        for key, id in deep.down.items():
            if key != step.subject.key and id in self.stopped_ids & known:
                raise Broken("7", f"{step.subject} is stopped while {key[1]}, stopped before, does not run again")

    def _may_be_stopped(self, process: Process, deep: Facts, facts: Facts, step: Step) -> None:
        id, name = step.subject.container_id, str(step.subject)
        if process.config.mode == "observe":
            raise Broken("6", f"{name} is stopped in mode observe")
        if deep.system != "running":
            raise Broken("6", f"{name} is stopped while systemd is {deep.system}")
        if not deep.lists:
            raise Broken("6", f"{name} is stopped while the runtime does not answer")
        if deep.transaction:
            raise Broken("6", f"{name} is stopped while rpm-ostree is at work")
        if not deep.would_start:
            raise Broken("6", f"{name} is stopped and kubelet would not start it again")
        if id in deep.lost:
            raise Broken("6", f"{name} is stopped and its configuration is not on the host")
        subject = facts.stale[id]
        if deep.helps[id] != step.kind:
            raise Broken("5", f"{name}: {step.kind}, and {deep.helps[id] or 'nothing'} would help")
        if self._node.kubelet.back_off(subject) > _LONGEST_BACK_OFF:
            raise Broken("8", f"{name} is stopped and kubelet would leave it down for long")
        if process.last is not None and self._is_paused(process.last.at):
            raise Broken("6", f"{name} is stopped during a pause")
        if not _is_open(process.config.windows, process.deep.wall if process.deep else 0.0):
            raise Broken("6", f"{name} is stopped outside of the maintenance windows")
        if subject.labels != "daemon-set":
            raise Broken("6", f"{name} is stopped and its restart policy is not Always")
        if not self._started_before(process, subject, facts) and not self._has_failed(subject):
            raise Broken("6", f"{name} is stopped and was started after the switch")

    def pause_ordered(self, seconds: float) -> None:
        self._pause = _Pause(self._node.timeline.now, seconds, self._node.host.boot)

    def pause_ended(self) -> None:
        self._pause = None

    def _is_paused(self, at: float) -> bool:
        """In another boot only the wall clock tells when it ends: then it surely holds if nobody has set that."""
        pause = self._pause
        if pause is None or not pause.began < at < pause.began + pause.seconds:
            return False
        return pause.boot == self._node.host.boot or self.stepped_at < pause.began

    def _started_before(self, process: Process, subject: Subject, facts: Facts) -> bool:
        """Truly, or as far as the ledger remembers: what was started before the switch was first seen."""
        started = facts.started[subject.id]
        if started <= facts.epoch_began:
            return True
        if any(started <= at for at in (*self.switches.values(), *process.switches) if at >= facts.epoch_began):
            return True
        return self._is_excused(subject)

    def _has_failed(self, subject: Subject) -> bool:
        """The smaller rung was tried: what runs was started by it."""
        current = self._current_switch()
        acts = [act for act in self.acts.values() if act.switch == current and act.subject.key == subject.key]
        return any(act.step == "stop-container" and act.outcome == "not-cured" for act in acts)

    def _is_excused(self, subject: Subject) -> bool:
        """With neither memory nor an order by mount ids only the directory's birth is left, and that is of the wall
        clock: who steps it back after that is believed if nothing is left of the time before the step."""
        node, cni = self._node, self._node.host.cni
        if node.shape.serials and subject.tree != cni.name:
            return False
        then = cni.born - cni.made
        known = [node.timeline.wall() - node.timeline.now]
        known += [one.created_at - one.started for one in node.subjects if one.runs]
        return then > max(known) + 0.5

    def _in_order(self, process: Process, deep: Facts, step: Step) -> None:
        current = self._current_switch()
        for act in self.acts.values():
            if act.switch != current:
                continue
            if (
                not act.outcome
                and act.subject.container_id in self.stopped_ids
                and act.subject.key != step.subject.key
            ):
                raise Broken("7", f"{step.subject} is stopped while {act.subject} has no outcome")
            climbs = step.kind == "stop-sandbox" and act.step == "stop-container"
            if climbs and act.subject.key == step.subject.key:
                continue
            if act.outcome == "not-cured" and self._still_bad(act, deep):
                raise Broken("7", f"{step.subject} is stopped although {act.subject} was not cured")
        shape = self._node.shape
        spent = [act for act in self.acts.values() if act.outcome not in STOPPED_NOTHING]
        of_switch = [act for act in spent if act.switch == current]
        if len(of_switch) >= shape.per_switch or len(spent) >= shape.per_hour:
            return  # Whoever has no act yet is refused: the budget is spent.
        mine = _rank(step.subject.namespace, step.subject.container)
        for id, other in deep.stale.items():
            done = any(act.subject.key == other.key and act.switch == current for act in self.acts.values())
            if done or not deep.helps[id] or id in deep.hidden or id in deep.lost or other.key in process.could_not:
                continue
            if self._node.kubelet.may_back_off(other) > _LONGEST_BACK_OFF:
                continue
            if other.labels != "daemon-set" or not self._surely_before(other, deep.started[id], id):
                continue
            if _rank(other.namespace, other.name) < mine:
                raise Broken("5", f"{step.subject} is stopped before {other.name}")

    def _surely_before(self, subject: Subject, started: float, id: str) -> bool:
        """By what nobody can forget: mount ids, or the directory's birth if nobody stepped the clock."""
        host = self._node.host
        if self._node.shape.serials:
            return subject.id == id and subject.serial < host.etc[-1].serial
        return self.stepped_at < 0 and started + 1.5 < host.cni.made

    def _still_bad(self, act: Act, facts: Facts) -> bool:
        return act.subject.key not in facts.fresh and act.subject.pod_uid in facts.ready

    def _current_switch(self) -> str:
        return next(reversed(self.switches), "")

    def stopped(self, subject: Subject) -> None:
        """The runtime ends a running container because the product asked."""
        rung = self._step.kind if self._step is not None else ""
        # Of the switch in which it was asked: a slow runtime may do it in the next one.
        place = (self._asked_in, subject.key, rung)
        self.stops[place] += 1
        self.stopped_ids.add(subject.id)
        self._node.log(f"(the product stops {subject.name})")
        self._within_budget()
        if self.stops[place] > 1 and not (self.forgot_at >= 0 and self._is_excused(subject)):
            raise Broken("6", f"{subject.name} is stopped {self.stops[place]} times for one switch ({rung})")

    def _within_budget(self) -> None:
        now, shape = self._node.timeline.now, self._node.shape
        self._stopped_at.append((now, self._node.host.boot))
        if self.forgot_at >= 0:
            return
        of_switch = sum(count for place, count in self.stops.items() if place[0] == self._asked_in)
        # How old an act of an earlier boot is, only the wall clock tells.
        of_hour = sum(
            1
            for at, boot in self._stopped_at
            if now - at < 3600.0 and (boot == self._node.host.boot or self.stepped_at < at)
        )
        if of_switch > shape.per_switch or of_hour > shape.per_hour:
            raise Broken("8", f"{of_switch} restarts for one switch, {of_hour} in an hour")

    # --- the ledger

    def committed(self, content: tuple[str, list[Any]]) -> None:
        """Something was committed: what is new?"""
        if self._node.disk.inode != self._inode:
            # Another file: the one before is lost, or was set aside.
            self.forget()
            self._inode = self._node.disk.inode
        if content == self._content:
            return
        self._content = content
        switch, rows = content
        now = self._node.timeline.now
        if switch and switch not in self.switches:
            self.switches[switch] = now
        process = self._node.processes[-1] if self._node.processes else None
        for id, of, step, text, outcome in rows:
            known = self.acts.get(id)
            if known is not None and known.outcome == outcome:
                continue
            act = Act(id, of, step, msgspec.json.decode(text, type=ActSubject), outcome)
            self.acts[id] = act
            if known is None and not outcome and process is not None:
                process.intended[act.subject.container_id] = now
            if known is not None and outcome:
                self._concluded(act, process)

    def _concluded(self, act: Act, process: Optional[Process]) -> None:
        """An outcome is on disk: is it true?"""
        self._node.log(f"(act {act.id} {act.subject.container}: {act.outcome})")
        if act.outcome not in get_args(OutcomeName):
            raise Broken("7", f"the outcome {act.outcome!r} has no name")
        if process is None or process.last is None:
            return
        facts, key = process.last.facts, act.subject.key
        # Containers are seen at a look's begin: what is true of one then may not be at its end.
        runs = facts.fresh.get(key, process.last.began.fresh.get(key))
        if act.outcome == "cured" and (runs is None or runs == act.subject.container_id):
            raise Broken("7", f"{act.subject} is said to be cured, and no new container of it is fresh")
        if act.outcome in STOPPED_NOTHING and act.subject.container_id in self.stopped_ids:
            raise Broken("7", f"{act.subject} was stopped, and its outcome says {act.outcome}")
        if act.outcome == "not-needed" and act.subject.container_id in set(facts.stale) - facts.hidden:
            raise Broken("7", f"{act.subject} is stale, and its outcome says that nothing was needed")
        if act.outcome == "pod-gone" and act.subject.pod_uid in facts.ready and key in facts.fresh:
            raise Broken("7", f"{act.subject} is said to be gone, and its pod is there")


def _is_open(windows: Sequence[Window], wall: float) -> bool:
    if not windows:
        return True
    now = datetime.fromtimestamp(wall, timezone.utc)
    minute = (now.weekday() * 24 + now.hour) * 60 + now.minute
    week = 7 * 24 * 60
    return any(minute in (one.start + n, one.start + n - week) for one in windows for n in range(one.minutes))


def _rank(namespace: str, name: str) -> tuple[bool, int]:
    writers = GENERIC.writers
    return (namespace != "kube-system", writers.index(name) if name in writers else len(writers))

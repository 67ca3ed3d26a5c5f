# SPDX-License-Identifier: Apache-2.0
"""What was done before, as the ledger has it."""

from __future__ import annotations

from typing import Literal, Optional

from ostreewatchd.model.record import Record

OutcomeName = Literal["", "cured", "not-cured", "not-needed", "not-done", "pod-gone", "superseded", "abandoned"]
"""How an act ended. Empty: it has not, and what it did is not known. `not-done`: it is certain that it stopped
nothing; `superseded`: another switch came before its end; `abandoned`: the same, found out later."""

STOPPED_NOTHING: frozenset[OutcomeName] = frozenset({"not-needed", "not-done"})
"""Of these a look has told that nothing was stopped: they count as no restart."""


class Subject(Record, frozen=True, kw_only=True):
    """What may have to be restarted; or the host, of which a finding only tells."""

    kind: Literal["container", "unit", "host"] = "container"
    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    container: str = ""
    container_id: str = ""
    unit: str = ""

    def __str__(self) -> str:
        if self.kind == "unit":
            return self.unit
        if self.kind == "host":
            return "host"
        if not self.container:
            # Of the whole pod (its sandbox), or nobody names it.
            return f"{self.namespace}/{self.pod}" if self.pod else f"container {self.container_id[:12] or '-'}"
        return f"{self.namespace}/{self.pod}/{self.container}"

    @property
    def key(self) -> tuple[str, str]:
        """What a restart is counted by: a restarted container has another id and is the same subject."""
        return ("", self.unit) if self.kind == "unit" else (self.pod_uid, self.container)


class Switch(Record, frozen=True, kw_only=True):
    """A live switch as the ledger knows it."""

    id: str
    fingerprint: str
    boot_id: str
    deployment: str
    seen_at: float
    seen_boottime: float = 0.0
    """When a remediation first saw it: the switch itself was earlier."""
    root: str = ""
    """The identity of `/` then; empty where a version wrote it that did not ask. Not a part of the fingerprint."""


class PastAct(Record, frozen=True, kw_only=True):
    """An act in the ledger. `outcome` is empty between intent and outcome."""

    id: int
    switch_id: str
    step: str
    subject: Subject
    because: str
    intent_at: float
    outcome: OutcomeName = ""
    outcome_at: Optional[float] = None
    proof: str = ""
    intent_boottime: float = 0.0
    boot_id: str = ""
    """The boot whose CLOCK_BOOTTIME that is; empty: an older version wrote it."""
    failure: str = ""
    """What kept it from curing, where `outcome` is `not-cured`: container-will-not-stop, container-will-not-start,
    sandbox-will-not-start, token-not-renewed, still-stale, unit-will-not-start."""
    invocation: str = ""
    """Of a unit: systemd's InvocationID of the start that the act was to end."""
    successor: str = ""
    """And of the start that came after it; empty: not known yet."""
    done_boottime: float = 0.0
    """CLOCK_BOOTTIME at which the unit's job had ended; 0: not known."""


class PastRecovery(Record, frozen=True, kw_only=True):
    """How the node came back from an act that restarted its runtime. A verdict is empty until it is judged."""

    act: int
    verdict: Literal["", "recovered", "not-yet", "cannot-know"] = ""
    why: str = ""
    judged_at: float = 0.0
    late_verdict: Literal["", "recovered", "not-yet", "cannot-know"] = ""
    """Minutes afterwards."""
    late_why: str = ""
    late_at: float = 0.0


class Pause(Record, frozen=True, kw_only=True):
    """A person's order to restart nothing for a while. In the boot in which it was made its end is told by
    CLOCK_BOOTTIME, which no clock step moves; after a reboot by the wall clock, and at the latest when the host has
    been up for as long as the pause was to last."""

    since: float = 0.0
    since_boottime: float = 0.0
    boot_id: str = ""
    seconds: float = 0.0
    who: str = ""
    why: str = ""
    problem: str = ""
    """The order is there and cannot be read: nobody knows for how long it is."""

    @property
    def until(self) -> float:
        """When it ends, if nobody sets the clock."""
        return self.since + self.seconds

    def holds(self, *, now: float, boottime: float, boot_id: str) -> bool:
        """Whether it is in effect."""
        if self.problem:
            return True
        if boot_id == self.boot_id:
            return boottime - self.since_boottime < self.seconds
        return now < self.until and boottime < self.seconds


class History(Record, frozen=True, kw_only=True):
    """The ledger as it was at the look. Not readable: `problem` says why, and nothing is known."""

    problem: str = ""
    set_aside: str = ""
    """Where the last corrupt ledger was put; empty if there never was one."""
    set_aside_boot: str = ""
    """In which boot that was."""
    switch: Optional[Switch] = None
    """The newest switch; a boot's first state counts as one."""
    before: Optional[Switch] = None
    """The one before it."""
    acts: tuple[PastAct, ...] = ()
    """Newest last; bounded, but all of `switch` and all without an outcome."""
    recoveries: tuple[PastRecovery, ...] = ()
    """Of the newest acts that restarted a runtime, newest last."""
    pause: Optional[Pause] = None
    """The pause that was ordered last; it may be over."""

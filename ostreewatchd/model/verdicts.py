# SPDX-License-Identifier: Apache-2.0
"""What judge and plan say of a Snapshot."""

from __future__ import annotations

from typing import Literal, Optional

from ostreewatchd.model.history import Subject
from ostreewatchd.model.record import Record

Verdict = Literal["fresh", "stale", "unknown", "wrong"]
"""`wrong`: no matter of fresh or stale, but a state of the host that contradicts itself or is about to do harm."""


RuntimeAction = Literal["nothing", "reload", "restart", "drain-and-reboot"]
"""From the smallest to the largest. The last one is only recommended."""


class Change(Record, frozen=True, kw_only=True):
    """Something that is another thing than the process has, and what makes it take effect."""

    rule: str
    action: RuntimeAction
    because: str
    daemon_reload: bool = False
    """Before the action."""
    unknown: bool = False
    """Whether it is another thing is not known: nothing is done for it."""


class Seen(Record, frozen=True, kw_only=True):
    """An identity with the deployment that it belongs to, as findings show it."""

    dev: int
    ino: int
    deployment: str


class Finding(Record, frozen=True, kw_only=True):
    """One judged fact about a subject."""

    rule: str
    verdict: Verdict
    owed: bool
    subject: Subject
    path: str
    inside: str = ""
    """Where the subject has it."""
    expected: Optional[Seen] = None
    actual: Optional[Seen] = None
    reason: str
    remedy: str
    evidence: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    """Of a unit: what it has not taken over."""


class Step(Record, frozen=True, kw_only=True):
    """One act."""

    kind: Literal["stop-container", "stop-sandbox", "restart-unit", "reload-unit"]
    subject: Subject
    sandbox_id: str
    attempt: Optional[int]
    grace: int
    """Seconds between SIGTERM and SIGKILL."""
    allowance: float = 0.0
    """Seconds that the proof may take on top of ProofSec: kubelet's known back-off, a new sandbox."""
    because: str
    smaller: str
    larger: str
    invocation: str = ""
    """Of a unit, the start that the step ends: another one is somebody else's, and is not ended for it."""
    daemon_reload: bool = False
    """Before it systemd reads its unit files anew."""
    along: tuple[str, ...] = ()
    """What else ends and starts with it."""
    kubelet: str = ""
    """kubelet's unit: where it ran before and a restart of the runtime has left it down, it is started."""


class Refusal(Record, frozen=True, kw_only=True):
    """Why something owed is not done now. `subject` None: it holds for the whole node."""

    name: str
    because: str
    ends: str
    ends_at: Optional[float] = None
    """When that is, if it is known."""
    subject: Optional[Subject] = None
    alarm: bool = False
    """Does not end by itself: a person has to look."""


class Plan(Record, frozen=True, kw_only=True):
    """Ordered steps and refusals. Nothing owed: all are empty."""

    steps: tuple[Step, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    would: tuple[Step, ...] = ()
    """To be shown and never done: the steps that only refusals of the whole node, or Mode=observe, hold back."""

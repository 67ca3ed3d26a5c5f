# SPDX-License-Identifier: Apache-2.0
"""What was done before, as the ledger has it."""

from __future__ import annotations

from typing import Literal, Optional

from ostreewatchd.model.record import Record

OutcomeName = Literal["", "cured", "not-cured", "not-needed", "pod-gone", "superseded", "abandoned"]
"""How an act ended. Empty: it has not, or nothing was done. `superseded`: another switch came before its end;
`abandoned`: the same, found out later."""


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
        return f"{self.namespace}/{self.pod}/{self.container}"

    @property
    def key(self) -> tuple[str, str]:
        """What a restart is counted by: a restarted container has another id and is the same subject."""
        return (self.pod_uid, self.container)


class Switch(Record, frozen=True, kw_only=True):
    """A live switch as the ledger knows it."""

    id: str
    fingerprint: str
    boot_id: str
    deployment: str
    seen_at: float
    seen_boottime: float = 0.0
    """When a remediation first saw it: the switch itself was earlier."""


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
    """Newest last, bounded."""

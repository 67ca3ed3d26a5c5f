# SPDX-License-Identifier: Apache-2.0
"""Which restart a recovery is judged from, where nobody says."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.model import History, PastAct

RESTART = "restart-unit"
"""The step of an act that restarts a unit."""


def last_restart(history: History, boot_id: str, unit: str) -> Optional[PastAct]:
    """The newest restart of the unit in this boot that the ledger has; None if it has none, or what was intended is
    known not to have been done."""
    mine = [
        act
        for act in history.acts
        if act.step == RESTART
        and act.subject.unit == unit
        and act.boot_id == boot_id
        and act.outcome not in ("not-done", "not-needed")
    ]
    return mine[-1] if mine else None

# SPDX-License-Identifier: Apache-2.0
"""How an act ended, and how that is written down and told."""

from __future__ import annotations

from typing import NamedTuple

from ostreewatchd.ledger import Ledger
from ostreewatchd.model import OutcomeName, Subject
from ostreewatchd.report.journal import Journal, Kind


class Outcome(NamedTuple):
    """How an act ended; empty `name`: it has not, for what it did is not known yet."""

    name: OutcomeName
    text: str
    stopped: bool = False
    failure: str = ""
    """As PastAct.failure."""


def concluded(ledger: Ledger, journal: Journal, act: int, subject: Subject, outcome: Outcome) -> Outcome:
    """Write how an act ended, and tell it. Raises LedgerError."""
    ledger.conclude(act, outcome.name, outcome.text, outcome.failure)
    kind = {"cured": Kind.CURED, "not-cured": Kind.NOT_CURED}.get(outcome.name, Kind.ENDED)
    journal.report(
        kind,
        f"{subject}: {outcome.name}: {outcome.text}",
        subject=subject,
        proof=outcome.text,
        act=act,
        outcome=outcome.name,
        failure=outcome.failure or None,
    )
    return outcome

# SPDX-License-Identifier: Apache-2.0
"""What was done and when, on disk: intent before an act, outcome after it. Written by the remediation alone, read by
all three programs. Beside it lies the pause that a person ordered."""

from __future__ import annotations

from ostreewatchd.ledger.file import PATH, LedgerError
from ostreewatchd.ledger.reading import Run, is_running, last_run, newest_run, read
from ostreewatchd.ledger.writing import REAL_CLOCK, Clock, Ledger

__all__ = [
    "PATH",
    "REAL_CLOCK",
    "Clock",
    "Ledger",
    "LedgerError",
    "Run",
    "is_running",
    "last_run",
    "newest_run",
    "read",
]

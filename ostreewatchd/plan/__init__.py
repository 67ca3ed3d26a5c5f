# SPDX-License-Identifier: Apache-2.0
"""From Snapshot and findings to ordered steps and refusals. Pure: the ledger's history is in the Snapshot."""

from __future__ import annotations

from ostreewatchd.plan.making import plan
from ostreewatchd.plan.subjects import LARGER, SMALLER

__all__ = ["LARGER", "SMALLER", "plan"]

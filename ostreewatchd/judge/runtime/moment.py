# SPDX-License-Identifier: Apache-2.0
"""Whether a process can have read what is there now."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.model import Service

_CLOCKS_APART = 1.0
"""Seconds. A start is known to a tick, in another clock than a file's change: closer than this is no order, and a
restart too many is the smaller harm."""


def came_after(service: Service, changed_at: Optional[float]) -> Optional[bool]:
    """Whether it became what it is after the process was started; None: not known."""
    if changed_at is None or service.started_at is None:
        return None
    return changed_at + _CLOCKS_APART > service.started_at

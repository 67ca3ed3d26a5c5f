# SPDX-License-Identifier: Apache-2.0
"""Whether a process can have read what is there now."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.model import Service


def came_after(service: Service, changed_at: Optional[float]) -> Optional[bool]:
    """Whether it became what it is after the process was started; None: not known."""
    seen = service.has_seen(changed_at)
    return None if seen is None else not seen

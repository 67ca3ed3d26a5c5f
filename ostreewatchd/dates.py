# SPDX-License-Identifier: Apache-2.0
"""The next date at which a look may find something else about a credential, without anything having happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ostreewatchd.judge.tokens.state import LEEWAY, last_part, renewal_due
from ostreewatchd.model import Credential, Snapshot


def next_date(snapshot: Snapshot) -> Optional[float]:
    """In seconds since the epoch, by this node's clock; None: there is none. A second later than the date itself."""
    hosts = (one for one in snapshot.credentials if not one.container_id)
    dates = (date + 1.0 for one in hosts for date in _dates(one))
    return min((date for date in dates if date > snapshot.taken_at + 1.0), default=None)


def _dates(one: Credential) -> Iterator[float]:
    if one.expires_at is not None:
        yield from (renewal_due(one), last_part(one), one.expires_at + LEEWAY)

# SPDX-License-Identifier: Apache-2.0
"""What all types on the arrows are: immutable records."""

from __future__ import annotations

import msgspec


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What all types here are: immutable, compared by value, written to JSON by msgspec."""

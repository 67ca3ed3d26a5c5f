# SPDX-License-Identifier: Apache-2.0
"""What all types on the arrows are: immutable records."""

from __future__ import annotations

from typing import Annotated

import msgspec

Unsigned = Annotated[int, msgspec.Meta(ge=0)]
"""A number of the kernel's that is never negative; checked when a file is read."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What all types here are: immutable, compared by value, written to JSON by msgspec."""

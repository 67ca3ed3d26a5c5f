# SPDX-License-Identifier: Apache-2.0
"""A saved series of evidence on a node's recovery: what `ostreewatchctl gate --json` printed, or its `evidence`
alone."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import RECOVERY_FORMAT, Recovery
from ostreewatchd.replay.form import Damaged, NewerFormat, NotASnapshot, NotJson, TooLarge, check_numbers

MAX_BYTES = 64 << 20
"""Of a file: sixty samples of a thousand pods each."""


def load(data: bytes) -> Recovery:
    """Unknown fields are ignored. Raises what `form.load` raises."""
    if len(data) > MAX_BYTES:
        raise TooLarge(f"it has more than {MAX_BYTES} bytes")
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJson(f"it is no JSON text: {error}") from error
    if isinstance(document, dict) and isinstance(document.get("evidence"), dict):
        document = document["evidence"]
    if not isinstance(document, dict) or not {"format", "since", "samples"} <= document.keys():
        raise NotASnapshot("it is JSON, and not what `ostreewatchctl gate --json` prints")
    known = document["format"]
    if isinstance(known, int) and known > RECOVERY_FORMAT:
        raise NewerFormat(
            f"it has format {known}; this version reads formats up to {RECOVERY_FORMAT}: use a newer one"
        )
    try:
        recovery = msgspec.convert(document, Recovery)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Damaged(f"it is damaged: {error}") from error
    check_numbers(recovery, "$")
    return recovery

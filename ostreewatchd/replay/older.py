# SPDX-License-Identifier: Apache-2.0
"""What older formats of a snapshot have otherwise, put as the newest has it.

Format 1 has each of `ostree.unreadable` as one text, the path and the reason with ": " between them."""

from __future__ import annotations

from typing import Any

from ostreewatchd.model import SNAPSHOT_FORMAT

MARK = "bytes:"
"""What a text begins with that has escaped bytes in it (replay/form.py)."""


def upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """A document of any format from 1 on as one of the newest. What no format has is left as it is."""
    if document["format"] >= SNAPSHOT_FORMAT:
        return document
    ostree = document.get("ostree")
    if isinstance(ostree, dict) and isinstance(ostree.get("unreadable"), list):
        lines = [_unreadable(line) if isinstance(line, str) else line for line in ostree["unreadable"]]
        document = {**document, "ostree": {**ostree, "unreadable": lines}}
    return {**document, "format": SNAPSHOT_FORMAT}


def _unreadable(line: str) -> dict[str, str]:
    mark = MARK if line.startswith(MARK) else ""
    path, _, what = line[len(mark) :].partition(": ")
    return {"path": mark + path, "what": mark + what}

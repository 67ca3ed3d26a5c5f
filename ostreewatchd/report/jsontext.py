# SPDX-License-Identifier: Apache-2.0
"""JSON for `--json`: whatever the kernel calls a path, the text is valid."""

from __future__ import annotations

import msgspec


def json_text(thing: object) -> str:
    """Indented JSON. Bytes of a path that are no UTF-8 become `\\udcXX` in the text: JSON has no way to say them."""
    return msgspec.json.format(msgspec.json.encode(_sayable(msgspec.to_builtins(thing))), indent=2).decode()


def _sayable(thing: object) -> object:
    if isinstance(thing, str):
        return thing if thing.isascii() else thing.encode("utf-8", "backslashreplace").decode()
    if isinstance(thing, dict):
        return {_sayable(key): _sayable(value) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [_sayable(one) for one in thing]
    return thing

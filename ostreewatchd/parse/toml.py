# SPDX-License-Identifier: Apache-2.0
"""TOML as the container runtimes' configuration has it: bounded, and of what is malformed the line.

Source: toml.io/en/v1.0.0; Python's tomllib, which is tomli."""

from __future__ import annotations

import re
import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MAX_BYTES = 256 << 10
_LINE = re.compile(r"\(at line (\d+), column \d+\)")
_MAX_SAID = 200
_MAX_DOTS = 1000
"""In a line. The reader copies all parts of a dotted key for each of them."""


class TomlError(ValueError):
    """It is no TOML; `line` is 0 where that is not known."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"line {line}: {what}" if line else what)
        self.line = line


def decode(data: bytes) -> dict[str, Any]:
    """The table that the text is. Raises TomlError."""
    if len(data) > MAX_BYTES:
        raise TomlError(0, f"longer than {MAX_BYTES} bytes: not read")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TomlError(data.count(b"\n", 0, error.start) + 1, "no UTF-8") from None
    for number, one in enumerate(text.split("\n"), start=1):
        if one.count(".") > _MAX_DOTS:
            raise TomlError(number, f"more than {_MAX_DOTS} dots: not read")
    try:
        found: dict[str, Any] = tomllib.loads(text)
        return found
    except RecursionError:
        raise TomlError(0, "nested too deep") from None
    except (tomllib.TOMLDecodeError, ValueError, OverflowError) as error:
        said = " ".join(str(error).split())
        where = _LINE.search(said)
        line = int(where.group(1)) if where else text.count("\n") + 1
        raise TomlError(line, _LINE.sub("", said).strip()[:_MAX_SAID]) from None

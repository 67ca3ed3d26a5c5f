# SPDX-License-Identifier: Apache-2.0
"""A command line's flags, as Go's programs read them. Source: pkg.go.dev/flag, github.com/spf13/pflag."""

from __future__ import annotations

from collections.abc import Sequence


def flags(words: Sequence[str]) -> dict[str, str]:
    """Each flag with its value: `--name=value`, `--name value` or `-n value`; one without a value is empty."""
    found: dict[str, str] = {}
    for place, word in enumerate(words[1:], start=1):
        if not word.startswith("-") or not word.strip("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        following = words[place + 1] if place + 1 < len(words) else "-"
        found[name] = value if equals else ("" if following.startswith("-") else following)
    return found

# SPDX-License-Identifier: Apache-2.0
"""One YAML (or JSON) document of plain values.

Source: YAML 1.1. PyYAML's constructors raise more than YAMLError on values that lie about their tag (`!!int ""` is
an IndexError): here that is one error."""

from __future__ import annotations

import yaml

_ERRORS = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class NotYaml(ValueError):
    """Cannot be read as YAML. The text may quote the file: not for one that holds credentials."""


def load(data: bytes) -> object:
    """The document. Raises NotYaml."""
    try:
        return yaml.safe_load(data)
    except _ERRORS as error:
        raise NotYaml(f"not YAML: {' '.join(str(error).split())[:200] or type(error).__name__}") from error

# SPDX-License-Identifier: Apache-2.0
"""One remediation: looks for itself, and acts one step at a time until nothing is owed or all that is left is
refused. The program of ostreewatchd-remediate.service, whose ExecStartPre= removes the request before; `program` has
its main."""

from __future__ import annotations

from ostreewatchd.remediation.program import main

__all__ = ["main"]

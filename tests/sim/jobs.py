# SPDX-License-Identifier: Apache-2.0
"""Runs the simulation in processes of its own, as many as there are processors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import msgspec

from tests.unit.sources import ROOT

JOBS = min(4, os.cpu_count() or 1)


def lines(commands: Sequence[Sequence[str]]) -> list[str]:
    """What `python -m tests.sim` prints with each of these arguments, all at the same time."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.sim", *command],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        for command in commands
    ]
    found = []
    try:
        for one in running:
            out, errors = one.communicate(timeout=3600 * 12)
            assert one.returncode in (0, 1) and "Traceback" not in errors, errors[-4000:]
            found += out.splitlines()
    finally:
        for one in running:
            one.kill()
            one.wait()
    return found


def json_lines(commands: Sequence[Sequence[str]]) -> dict[str, int]:
    """Lines of one object each, as one."""
    found: dict[str, int] = {}
    for line in lines(commands):
        found.update(msgspec.json.decode(line, type=dict[str, int]))
    return found

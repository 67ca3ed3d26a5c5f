# SPDX-License-Identifier: Apache-2.0
"""Asks the CRI-O program that is on disk, not the one that runs: its version, and whether it would start with the
configuration on disk.

`crio config` reads all configuration and does nothing else. `crio check` would say more, and unmounts the storage of
live containers: it is never called. Sources: crio(8); measured with 1.37.0 (a malformed file: 1; a default handler
without a table: 1; a path that is not there, or an unknown key: 0, so these are looked at apart)."""

from __future__ import annotations

import re
import subprocess
from typing import NamedTuple

_WITHIN = 10.0
_VERSION = re.compile(r"[Vv]ersion:?\s+v?(\d+\.\d+\.\S+)")
_MAX_SAID = 300
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


class Answer(NamedTuple):
    """`version` is empty where it does not say; `problem`: why it would not start, empty: it would, or cannot be
    asked."""

    version: str
    problem: str


def ask(program: str) -> Answer:
    """Never raises: what cannot be asked is not known."""
    _, said, _ = _run(program, "--version")
    found = _VERSION.search(said)
    status, _, complaint = _run(program, "config")
    lines = [line for line in complaint.splitlines() if line.strip()]
    problem = " ".join(lines[-1].split())[:_MAX_SAID] if status == 1 and lines else ""
    return Answer(found.group(1) if found else "", problem)


def _run(program: str, argument: str) -> tuple[int, str, str]:
    """Status, what it prints (of `config` nothing: that is long), what it complains of; -1: it did not end."""
    output = subprocess.DEVNULL if argument == "config" else subprocess.PIPE
    try:
        done = subprocess.run(
            [program, argument], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE, timeout=_WITHIN,
            check=False, env=_ENVIRONMENT,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return -1, "", ""
    return done.returncode, (done.stdout or b"").decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")

# SPDX-License-Identifier: Apache-2.0
"""Holds a node, and takes all of it away however the bench ends: python -m bench.keeper LIFELINE NODE BASE CGROUP.

LIFELINE is the reading end of a pipe whose other end only the bench has: it closes with the bench, SIGKILL
included. Standard input and output are the node's own."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from pathlib import Path

_PATIENCE = 30.0


def main(arguments: list[str]) -> int:
    lifeline, node, base, cgroup = int(arguments[0]), arguments[1], Path(arguments[2]), Path(arguments[3])
    status = 1
    try:
        base.mkdir(mode=0o700)
        cgroup.mkdir()
        with subprocess.Popen([node, str(base), str(cgroup)]) as process:
            os.close(0)
            os.close(1)
            while process.poll() is None:
                if select.select([lifeline], [], [], 0.2)[0]:
                    process.kill()
            status = process.returncode
    finally:
        remove(base, cgroup)
    return 0 if status in (0, -9) else 1


def remove(base: Path, cgroup: Path) -> None:
    """The mounts went with the namespace. The processes do, too, but need a moment to leave their cgroups."""
    deadline = time.monotonic() + _PATIENCE
    while cgroup.exists() and time.monotonic() < deadline:
        for directory, _, _ in os.walk(cgroup, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(directory)
        time.sleep(0.05)
    with contextlib.suppress(OSError):
        base.rmdir()
    if cgroup.exists() or base.exists():
        print(f"bench: {cgroup} or {base} is left behind", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""Takes a node away whatever state it is in: processes, cgroups, mounts, folder."""

import contextlib
import os
import shutil
import signal
import time
from pathlib import Path

from tests.lab import cache, cgroups, kernel, record
from tests.lab.errors import NodeFailed


def destroy(name: str) -> None:
    """End a node and remove all of it. Safe to repeat, and while somebody else does the same."""
    home = record.folder(name)
    with contextlib.suppress(FileNotFoundError):
        # A boot that is under way looks for this after it has joined the cgroups that are emptied below:
        # it is either killed there or ends by itself.
        (home / record.DOOMED).touch()
    with cache.locked(f"node-{name}"):
        _end(name)
        if home.exists():
            _unmount_below(home)
            _delete(home)
    (cache.folder("locks") / f"node-{name}.lock").unlink(missing_ok=True)


def _end(name: str) -> None:
    with contextlib.suppress(NodeFailed):
        known = record.read(name)
        for process in (known.leader, known.nspawn):
            if process is not None and process.alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
    cgroups.kill(name)
    cgroups.remove(name)


def sweep() -> list[str]:
    """Destroy the nodes whose owner is dead: both it and its reaper were killed. Say which."""
    gone = []
    for name in sorted({*record.names(), *cgroups.names()}):
        try:
            owner = record.read(name).owner
            orphaned = owner is not None and not owner.alive()
        except NodeFailed:
            # No file yet: just being made, or what a killed process left a while ago.
            home = record.folder(name)
            orphaned = not home.exists() or time.time() - home.stat().st_mtime > 120
        if orphaned:
            destroy(name)
            gone.append(name)
    return gone


def _unmount_below(home: Path) -> None:
    """A node's mounts live in its own namespace and are gone with it; this is for what a person mounted."""
    prefix = f"{home.resolve()}/"
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        point = line.split()[4].encode().decode("unicode_escape")
        if point.startswith(prefix):
            kernel.unmount(point)


def _delete(home: Path) -> None:
    for deployment in home.glob("phys/ostree/deploy/*/deploy/*.*"):
        if deployment.is_dir():
            kernel.clear_immutable(deployment)
    # Renamed first: a folder that is half deleted does not look like a node.
    doomed = home.with_name(f".{home.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        home.rename(doomed)
        shutil.rmtree(doomed)


def everything() -> list[str]:
    """Destroy all nodes, whoever they belong to. Say which."""
    gone = sorted({*record.names(), *cgroups.names()})
    for name in gone:
        destroy(name)
    for half_deleted in cache.folder("nodes").glob(".*"):
        shutil.rmtree(half_deleted, ignore_errors=True)
    return gone

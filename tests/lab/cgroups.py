# SPDX-License-Identifier: Apache-2.0
"""A cgroup of a node's own in every hierarchy: its cgroup namespace makes it the node's root."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from tests.lab.errors import NodeFailed

MOUNT = Path("/sys/fs/cgroup")
PREFIX = "ostreewatchd-lab-"


def hierarchies() -> list[Path]:
    """The root of each hierarchy: many with cgroup v1 (hybrid), one with v2."""
    if (MOUNT / "cgroup.procs").exists():
        return [MOUNT]
    # /sys/fs/cgroup/cpu may be a link to cpu,cpuacct: each hierarchy once.
    return sorted({path.resolve() for path in MOUNT.iterdir() if (path / "cgroup.procs").exists()})


def of(name: str) -> list[Path]:
    """A node's cgroup in each hierarchy, whether it exists or not."""
    return [hierarchy / f"{PREFIX}{name}" for hierarchy in hierarchies()]


def create(name: str) -> None:
    """Make a node's cgroups, ready to take processes."""
    for group in of(name):
        group.mkdir(exist_ok=True)
        if (group / "cpuset.cpus").exists() and (group.parent / "cpuset.cpus").exists():
            # An empty cpuset takes no process; children are to inherit what it has.
            for item in ("cpuset.cpus", "cpuset.mems"):
                (group / item).write_text((group.parent / item).read_text())
            if (group / "cgroup.clone_children").exists():
                (group / "cgroup.clone_children").write_text("1")


def join(name: str) -> None:
    """Move the calling process into a node's cgroups; fails when they are gone."""
    for group in of(name):
        (group / "cgroup.procs").write_text(str(os.getpid()))


def entries(leader: int) -> list[Path]:
    """Where a process that enters a node belongs, in each hierarchy: the root of what the node sees.

    Not everywhere the node's own cgroup: nspawn makes one for its payload in systemd's hierarchy."""
    found = []
    for line in Path(f"/proc/{leader}/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        if controllers:
            root = MOUNT / controllers.replace("name=", "")
            path = re.sub(r"/init\.scope$", "", path)
        elif (MOUNT / "cgroup.procs").exists():
            root = MOUNT  # v2 alone: a cgroup with controllers takes no processes but in its leaves
        else:
            root = MOUNT / "unified"
            path = re.sub(r"/init\.scope$", "", path)
        found.append(root / path.lstrip("/"))
    return found


def members(name: str) -> set[int]:
    """All processes below a node's cgroups."""
    found: set[int] = set()
    for group in of(name):
        for base in _below(group):
            with contextlib.suppress(OSError):
                found.update(int(line) for line in (base / "cgroup.procs").read_text().split())
    found.discard(0)
    found.discard(os.getpid())
    return found


def kill(name: str, limit: float = 15.0) -> None:
    """Kill what is in a node's cgroups until nothing is."""
    deadline = time.monotonic() + limit
    while True:
        left = members(name)
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > deadline:
            raise NodeFailed(f"processes {sorted(left)} of node {name} survive SIGKILL for {limit:g} s")
        time.sleep(0.02)


def remove(name: str, limit: float = 10.0) -> None:
    """Remove a node's cgroups; a dead process may hold one for a moment."""
    deadline = time.monotonic() + limit
    for group in of(name):
        while group.exists():
            for base in _below(group):
                with contextlib.suppress(OSError):
                    base.rmdir()
            if group.exists() and time.monotonic() > deadline:
                raise NodeFailed(f"cgroup {group} cannot be removed", hint="cat its cgroup.procs")
            if group.exists():
                time.sleep(0.02)


def names() -> set[str]:
    """The nodes that have a cgroup somewhere."""
    found: set[str] = set()
    for hierarchy in hierarchies():
        found.update(path.name[len(PREFIX) :] for path in hierarchy.glob(f"{PREFIX}*") if path.is_dir())
    return found


def _below(group: Path) -> Iterator[Path]:
    """A cgroup and all below it, the deepest first."""
    for base, _folders, _files in os.walk(group, topdown=False):
        yield Path(base)

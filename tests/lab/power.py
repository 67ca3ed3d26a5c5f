# SPDX-License-Identifier: Apache-2.0
"""Switches a node on and off, and tells which process its PID 1 is."""

import contextlib
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Optional

from tests.lab import cgroups
from tests.lab.errors import NodeFailed
from tests.lab.record import Process, Record
from tests.lab.run import start_module, tail
from tests.lab.sysroot import Sysroot

# systemd(1): SIGRTMIN+4 starts poweroff.target.
POWER_OFF = signal.SIGRTMIN + 4
_children: dict[int, "subprocess.Popen[bytes]"] = {}


def on(known: Record, disk: Sysroot, netns: Optional[Path], limit: float = 15.0) -> Record:
    """Boot the newest deployment; returns when its PID 1 runs."""
    if known.running():
        raise NodeFailed(f"node {known.name} runs already")
    (disk.var / "lib/lab").mkdir(parents=True, exist_ok=True)
    (disk.var / "lib/lab/cmdline").write_text(f"quiet ostree={disk.boot_argument()}\n")
    cgroups.remove(known.name)  # what the last boot left makes kubelet wait for dead containers
    cgroups.create(known.name)
    console = known.folder / "console.log"
    arguments = [known.name, str(disk.newest()), *([str(netns)] if netns else [])]
    child = start_module("tests.lab.inner", arguments, console)
    _children[child.pid] = child
    known = replace(known, nspawn=Process.of(child.pid), leader=None)
    known.write()
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        leader = _leader(child.pid)
        if leader is not None:
            known = replace(known, leader=leader)
            known.write()
            return known
        if child.poll() is not None:
            break
        time.sleep(0.02)
    child.kill()
    child.wait(timeout=10)
    raise NodeFailed(f"node {known.name} has no PID 1:\n{tail(console)}", log=console)


def off(known: Record, limit: float = 30.0) -> Record:
    """Power off in order; a node that does not end in time is an error, and cut."""
    if known.leader is not None and known.leader.alive():
        os.kill(known.leader.pid, POWER_OFF)
    if not _ended(known, limit):
        cut(known)
        raise NodeFailed(f"node {known.name} did not power off within {limit:g} s", log=known.folder / "console.log")
    return _settle(known)


def cut(known: Record) -> Record:
    """Take the power away: SIGKILL to PID 1, and with it to all in its pid namespace."""
    for process in (known.leader, known.nspawn):
        if process is not None and process.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    cgroups.kill(known.name)
    _ended(known, 10.0)
    return _settle(known)


def _settle(known: Record) -> Record:
    cgroups.kill(known.name)
    cgroups.remove(known.name)
    known = replace(known, nspawn=None, leader=None)
    known.write()
    return known


def _ended(known: Record, limit: float) -> bool:
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        child = _children.get(known.nspawn.pid) if known.nspawn is not None else None
        if child is not None and child.poll() is not None:
            del _children[child.pid]
        if not any(process is not None and process.alive() for process in (known.nspawn, known.leader)):
            return True
        time.sleep(0.02)
    return False


def _leader(nspawn: int) -> Optional[Process]:
    """The child of systemd-nspawn that is PID 1 of a namespace of its own and has become systemd."""
    try:
        children = Path(f"/proc/{nspawn}/task/{nspawn}/children").read_text().split()
        for child in children:
            status = Path(f"/proc/{child}/status").read_text()
            ids = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
            program = os.readlink(f"/proc/{child}/exe")
            if ids[-1] == "1" and len(ids) > 1 and program.endswith("/systemd"):
                return Process.of(int(child))
    except (FileNotFoundError, ProcessLookupError, StopIteration):
        return None
    return None


def forget(known: Record) -> None:
    """Collect the child of a node that was taken away."""
    child = _children.pop(known.nspawn.pid, None) if known.nspawn is not None else None
    if child is not None:
        child.wait(timeout=10)

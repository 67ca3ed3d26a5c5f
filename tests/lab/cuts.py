# SPDX-License-Identifier: Apache-2.0
"""Remediations that wait for somebody to follow them, and the names of the moments in which one can be cut."""

import os
import shutil
import signal
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from tests.lab import cgroups
from tests.lab.errors import NodeFailed
from tests.lab.node import Node
from tests.lab.trace import Call
from tests.lab.witness import REMEDIATION

PROGRAM = "/usr/libexec/ostreewatchd/ostreewatchd-remediate"
_DROP_IN = f"/run/systemd/system/{REMEDIATION}.d/held.conf"
# The shell stops itself before it becomes the program: $$$$ is systemd's way to write $$.
_HELD = f"""[Service]
ExecStart=
ExecStart=/bin/sh -c 'kill -STOP $$$$; exec {PROGRAM}'
"""
STATE = "/var/lib/ostreewatchd"
_LEDGER = "ledger.db"
_HEADERS = 1


@contextmanager
def held(node: Node) -> Iterator[None]:
    """Each remediation of the unit waits before its first instruction, for take(); afterwards none does."""
    node.sh(f"mkdir -p $(dirname {_DROP_IN}) && cat >{_DROP_IN} && systemctl daemon-reload", input=_HELD)
    try:
        yield
    finally:
        if node.running:
            node.sh(f"rm -f {_DROP_IN} && systemctl daemon-reload")
            waiting = _waiting(node)
            if waiting is not None:
                os.kill(waiting, signal.SIGCONT)


def take(node: Node, timeout: float = 30.0) -> int:
    """The process of the remediation that waits, as the machine counts. Asks for one, should the watcher not."""
    node.sh(["systemctl", "start", "--no-block", REMEDIATION])
    return node.wait(lambda: _waiting(node), timeout, "a remediation waits", every=0.02)


def _waiting(node: Node) -> Optional[int]:
    for pid in processes(node, REMEDIATION):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state == "T":
            return pid
    return None


def processes(node: Node, unit: str) -> list[int]:
    """A unit's processes, as the machine counts."""
    for group in cgroups.entries(node.leader):
        try:
            return [int(one) for one in (group / "system.slice" / unit / "cgroup.procs").read_text().split()]
        except OSError:
            continue
    return []


def main_process(node: Node, unit: str, command: str) -> int:
    """The process of a unit that has this command name, as the machine counts."""
    for pid in processes(node, unit):
        if Path("/proc", str(pid), "comm").read_text().strip() == command:
            return pid
    raise NodeFailed(f"{unit} has no process {command}")


def state(node: Node) -> Path:
    """The product's state directory as the running node has it."""
    return Path(node.root, STATE.lstrip("/"))


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """A query to the ledger in a folder, as whoever opens it next will find it: on a copy, for a transaction that was
    cut is taken back by opening it. Nothing where there is no ledger."""
    with tempfile.TemporaryDirectory() as place:
        for path in folder.glob(f"{_LEDGER}*"):
            if not path.name.endswith(".lock"):
                shutil.copyfile(path, Path(place, path.name))
        if not Path(place, _LEDGER).exists():
            return []
        base = sqlite3.connect(Path(place, _LEDGER))
        try:
            return base.execute(query).fetchall()
        except sqlite3.Error as error:
            raise NodeFailed(f"{folder}/{_LEDGER}: {error}") from error
        finally:
            base.close()


@dataclass(frozen=True)
class Moment:
    """Right before or right after a call that changes something outside of the process. `act`: how many there were
    when its run got here, this one included."""

    name: str
    act: int
    call: Call


class Moments:
    """Names the moments of one run. The last durable transaction that was begun names the part of the run: run,
    switch, intent, outcome or end; a run that takes an act up again may begin with its outcome. Looks are none."""

    def __init__(self, node: Node, switches: int, acts: int) -> None:
        """`switches`: how many the ledger knew before this one; `acts`: how many this one is to need."""
        self._folder = state(node)
        self._switches, self._needed = switches, acts
        self._part = "start"
        self._act = 0
        self._seen: Counter[str] = Counter()
        self._asked = False

    def of(self, call: Call) -> Optional[Moment]:
        """The moment that a call is, if it is one."""
        what = self._what(call)
        if not what:
            return None
        self._seen[what] += not call.done
        end = "done" if call.done else "begins"
        return Moment(f"{self._part}: {what} {max(self._seen[what], 1)} {end}", self._act, call)

    def _what(self, call: Call) -> str:
        if call.to.startswith(STATE):
            if call.name == "open" and call.to.endswith("-journal") and not call.done:
                self._begin()
            return f"{call.name} {os.path.basename(call.to)}"
        if call.to.endswith("/journal/socket"):
            return "tell the journal"
        if not call.to.endswith("/containerd.sock") or self._part != "intent":
            return ""
        if call.name == "connect":
            return "connect to the runtime"
        if b"/StopContainer" in call.data or b"/StopPodSandbox" in call.data:
            self._asked = True
            return "ask for the stop"
        if self._asked and call.name == "recvmsg" and _HEADERS in _frames(call.data):
            self._asked = False
            return "the answer"
        return ""

    def _begin(self) -> None:
        """A transaction: by what the ledger has before it."""
        outcomes = [one for (one,) in rows(self._folder, "SELECT outcome FROM act WHERE switch_id = (SELECT id FROM"
                                           " switch ORDER BY number DESC LIMIT 1) ORDER BY id")]  # fmt: skip
        if self._part == "start":
            self._part = "run"
        elif len(rows(self._folder, "SELECT id FROM switch")) == self._switches:
            self._part = "switch"
        elif "" in outcomes:
            self._part = "outcome"
        else:
            self._part = "end" if len(outcomes) == self._needed else "intent"
        self._act = len(outcomes) + (self._part == "intent") if self._part != "switch" else 0
        self._seen.clear()


def _frames(data: bytes) -> list[int]:
    """The kinds of the HTTP/2 frames that begin in it (RFC 9113, 4.1)."""
    found = []
    while len(data) >= 9:
        found.append(data[3])
        data = data[9 + int.from_bytes(data[:3], "big") :]
    return found

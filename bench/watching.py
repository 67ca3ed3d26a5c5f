# SPDX-License-Identifier: Apache-2.0
"""The real watcher inside the node: its memory, how soon it says what it found, what it costs at rest and in a
storm of mounts (DESIGN §9)."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.build import REPOSITORY, BenchError, Interpreter, run
from bench.node import Node
from bench.table import Row
from ostreewatchd import settings
from ostreewatchd.report.journal import Kind
from ostreewatchd.watcher import AFTER_SWITCH, FORGET_EVERY

_RSS_GOAL, _LATENCY_GOAL, _IDLE_GOAL, _STORM_GOAL = 30.0, 100.0, 0.1, 5.0
_PATIENCE = 30.0
_STORM_RATE = 1000
_WATCHDOG = 30
"""Seconds, as the unit has it: what an idle watcher wakes for."""


class _Entry(NamedTuple):
    at: int
    """CLOCK_MONOTONIC in nanoseconds, when it was received."""
    kind: str


class _Used(NamedTuple):
    nanoseconds: int
    switches: int
    at: int


class Watcher:
    """A running watcher; `with` ends it. Its journal and its notifications come to sockets of ours."""

    def __init__(self, node: Node, interpreter: Interpreter) -> None:
        run = node.tools_root / "run"
        self._paths = (run / "systemd/journal/socket", run / "notify")
        self._journal, self._notify = (_listen(path) for path in self._paths)
        self._wanted = run / "ostreewatchd/wanted"
        program = (
            f"import sys; sys.path.insert(0, {str(interpreter.packages)!r});"
            "from ostreewatchd.watcher import main; sys.exit(main())"
        )
        environment = ["env", "-i", "NOTIFY_SOCKET=/run/notify", f"WATCHDOG_USEC={_WATCHDOG * 1_000_000}"]
        self._process = subprocess.Popen(
            node.command([*environment, str(interpreter.python), "-I", "-S", "-B", "-c", program]),
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def __enter__(self) -> Watcher:
        try:
            self._until(lambda text: text.startswith("READY="))
            self.looked()
            self.pid = self._child()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError, AttributeError):
            os.kill(self.pid, signal.SIGTERM)
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for listener, path in zip((self._journal, self._notify), self._paths):
            listener.close()
            path.unlink(missing_ok=True)
        self._wanted.unlink(missing_ok=True)

    def looked(self) -> str:
        """Wait for the status that a look ends with."""
        return self._until(lambda text: text.startswith("STATUS=") and "waiting" not in text)

    def look(self) -> None:
        """Have it look, and wait for that."""
        os.kill(self.pid, signal.SIGHUP)
        self.looked()

    def _until(self, wanted: object) -> str:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if select.select([self._notify], [], [], 0.1)[0]:
                text = self._notify.recv(4096).decode()
                if callable(wanted) and wanted(text):
                    return text
            if self._process.poll() is not None:
                said = self._process.stderr.read() if self._process.stderr else ""
                raise BenchError(f"the watcher ended with status {self._process.returncode}: {said.strip()}")
        raise BenchError(f"the watcher was not ready within {_PATIENCE:g} s")

    def _child(self) -> int:
        """nsenter forks into the pid namespace."""
        names = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        if len(names) != 1:
            raise BenchError(f"nsenter has {len(names)} children")
        return int(names[0])

    def drain(self) -> None:
        """Forget what has come so far."""
        for listener in (self._journal, self._notify):
            while select.select([listener], [], [], 0)[0]:
                listener.recv(1 << 16)

    def entry(self, kind: Kind) -> _Entry:
        """The next journal entry of this kind."""
        wanted = kind.name.lower().replace("_", "-")
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            if not select.select([self._journal], [], [], 0.5)[0]:
                continue
            data = self._journal.recv(1 << 16)
            now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            match = re.search(rb"^OSTREEWATCHD_KIND=(\S+)$", data, re.MULTILINE)
            if match and match.group(1).decode() == wanted:
                return _Entry(now, wanted)
        raise BenchError(f"no journal entry of kind {wanted} within {_PATIENCE:g} s")

    def memory(self) -> tuple[float, float]:
        """RSS and PSS in MiB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        rollup = Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        found = [re.search(pattern, text, re.MULTILINE) for pattern, text in
                 ((r"^VmRSS:\s+(\d+)", status), (r"^Pss:\s+(\d+)", rollup))]  # fmt: skip
        rss, pss = (int(match.group(1)) / 1024 if match else 0.0 for match in found)
        return rss, pss

    def used(self) -> _Used:
        """Processor time and voluntary switches of all threads so far."""
        nanoseconds = switches = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            nanoseconds += int((task / "schedstat").read_text().split()[0])
            match = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE)
            switches += int(match.group(1)) if match else 0
        return _Used(nanoseconds, switches, time.monotonic_ns())


def _listen(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    listener.bind(str(path))
    return listener


def memory_rows(node: Node, interpreters: list[Interpreter]) -> Iterator[Row]:
    count = sum(len(pod.containers) for pod in node.pods)
    for interpreter in interpreters:
        with Watcher(node, interpreter) as watcher:
            before = watcher.memory()
            node.patch()
            watcher.entry(Kind.OWED)
            watcher.looked()
            after = watcher.memory()
            node.undo()
            watcher.entry(Kind.SWITCH)
        yield Row(
            f"watcher's RSS, {count} namespaces, Python {interpreter.version}",
            f"{before[0]:.1f} MiB", f"{after[0]:.1f} after a switch", f"PSS {before[1]:.1f}",
            f"<= {_RSS_GOAL:g} MiB", max(before[0], after[0]) <= _RSS_GOAL,
        )  # fmt: skip


def latency_row(node: Node, interpreter: Interpreter, repetitions: int) -> Row:
    """From the return of the last mount(2) to the first finding in the journal."""
    count = sum(len(pod.containers) for pod in node.pods)
    settle = settings.load(())[0].settle
    found = []
    with Watcher(node, interpreter) as watcher:
        for _ in range(repetitions):
            watcher.drain()
            mounted = node.patch()
            found.append((watcher.entry(Kind.OWED).at - mounted) / 1e6 - settle * 1e3)
            watcher.looked()
            time.sleep(0.2)
            watcher.drain()
            node.undo()
            watcher.entry(Kind.SWITCH)
            watcher.looked()
            time.sleep(0.3)
    return Row(
        f"last mount -> finding, {count} namespaces, {repetitions} times (settle time of {settle:g} s taken off)",
        f"{statistics.median(found):.0f} ms", f"{min(found):.0f} .. {max(found):.0f}", "",
        f"< {_LATENCY_GOAL:g} ms", max(found) < _LATENCY_GOAL,
    )  # fmt: skip


def rest_rows(node: Node, interpreter: Interpreter, idle: float, storm: int) -> Iterator[Row]:
    """At rest, in a storm, and in a storm just after a switch, when each mount is a reason to look."""
    count = sum(len(pod.containers) for pod in node.pods)
    node.settle()
    known = node.command([sys.executable, "-B", "-m", "bench.known"])
    run(["env", f"PYTHONPATH={REPOSITORY}", *known])
    with Watcher(node, interpreter) as watcher:
        start = watcher.used().nanoseconds / 1e6
        # A start is looked at again as a switch is: that is not rest.
        time.sleep(max(AFTER_SWITCH) + 1 if idle > max(AFTER_SWITCH) else 0.5)
        share, milliseconds, switches = _usage(watcher, lambda: time.sleep(idle))
        watcher.drain()
        _, look, _ = _usage(watcher, watcher.look)
        # Of a number of resyncs one remembers nothing; the whole start stands for it here, which costs more.
        resync = ((FORGET_EVERY - 1) * look + start) / FORGET_EVERY
        share += 100 * resync / (settings.load(())[0].resync * 1e3)
        yield Row(
            f"idle, {count} namespaces: {idle:g} s, and the resync's share", f"{share:.3f} % of a core",
            f"{milliseconds:.1f} ms", f"a resync {resync:.0f} ms, {switches} voluntary switches",
            f"<= {_IDLE_GOAL:g} %", share <= _IDLE_GOAL,
        )  # fmt: skip
        yield _storm(node, watcher, storm, "")
        node.patch()
        watcher.entry(Kind.OWED)
        watcher.looked()
        yield _storm(node, watcher, storm, ", just after a switch")
        node.undo()


def _storm(node: Node, watcher: Watcher, seconds: int, state: str) -> Row:
    done = 0.0

    def blow() -> None:
        nonlocal done
        mounts, took = node.tell(f"storm {_STORM_RATE} {seconds}").split()
        done = int(mounts) / (int(took) / 1e9)

    share, milliseconds, switches = _usage(watcher, blow)
    return Row(
        f"storm of {done:.0f} mounts and as many unmounts a second for {seconds} s{state}",
        f"{share:.1f} % of a core", f"{milliseconds:.0f} ms", f"{switches} voluntary switches",
        f"<= {_STORM_GOAL:g} %", share <= _STORM_GOAL,
    )  # fmt: skip


def _usage(watcher: Watcher, meanwhile: object) -> tuple[float, float, int]:
    """Percent of a core, milliseconds, voluntary switches while that goes on."""
    before = watcher.used()
    if callable(meanwhile):
        meanwhile()
    after = watcher.used()
    used = after.nanoseconds - before.nanoseconds
    return 100 * used / (after.at - before.at), used / 1e6, after.switches - before.switches

# SPDX-License-Identifier: Apache-2.0
"""The stand-in for CRI-O as a process, with everything of its own below one directory, in front of a containerd."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.cri.errors import CriError
from tests.host.containerd import Containerd

ROOT = Path(__file__).resolve().parents[2]
CONFIG = """
[crio]
root = "{base}/storage"
runroot = "{base}/runroot"
version_file = "{base}/version"
clean_shutdown_file = "{base}/clean.shutdown"
[crio.api]
listen = "{base}/crio.sock"
[crio.runtime]
default_runtime = "runc"
[crio.runtime.runtimes.runc]
runtime_path = "{runc}"
[crio.network]
network_dir = "{base}/net.d"
plugin_dirs = ["{base}/plugins"]
"""
NETWORK = '{{"cniVersion": "0.4.0", "name": "{}", "plugins": []}}'


class Crio:
    """Started by `start`; a Containerd's attributes, so that the same tests take either."""

    def __init__(self, behind: Containerd, name: str = "crio", **environment: str) -> None:
        self.behind = behind
        self.base = behind.base / name
        self.socket = str(self.base / "crio.sock")
        self.cgroup = behind.cgroup
        self.drop_ins = self.base / "crio.conf.d"
        self.runc = self.base / "runc"
        for folder in (self.drop_ins, self.base / "net.d", self.base / "plugins"):
            folder.mkdir(parents=True)
        self.runc.touch()
        self.network = self.base / "net.d/10-first.conflist"
        self.network.write_text(NETWORK.format("first"))
        (self.base / "crio.conf").write_text(CONFIG.format(base=self.base, runc=self.runc))
        # As after an upgrade, and not as after a boot: there is nothing to wipe.
        (self.base / "version").write_text('"1.37.0+unknown"')
        self._environment = {
            **os.environ, "CRIO_BEHIND": behind.socket, "CRIO_MARKS": str(self.base / "marks"),
            "PYTHONPATH": str(ROOT), "NOTIFY_SOCKET": str(self.base / "notify"), **environment,
        }  # fmt: skip
        self._notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notified.bind(str(self.base / "notify"))
        self._notified.settimeout(20)
        self.process: subprocess.Popen[bytes]
        self._log_from = 0

    def begin(self, *flags: str) -> None:
        """Start it, and wait for nothing."""
        with (self.base / "log").open("ab") as log:
            self._log_from = log.tell()
            self.process = subprocess.Popen(
                self._command(*flags), env=self._environment, cwd=ROOT, stdout=log, stderr=log
            )

    def start(self, *flags: str) -> None:
        """Start it and wait for READY=1, then for its first answer."""
        self.begin(*flags)
        assert self._notified.recv(100) == b"READY=1", self.log()
        self.wait_until_it_answers()

    def wait_until_it_answers(self) -> None:
        until = time.monotonic() + 20
        while True:
            try:
                with Runtime.connect(self.socket, deadline=5) as runtime:
                    runtime.version()
                return
            except CriError:
                assert time.monotonic() < until and self.process.poll() is None, self.log()
                time.sleep(0.01)

    def ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A subcommand."""
        return subprocess.run(
            self._command(*words), env=self._environment, cwd=ROOT, capture_output=True, text=True, timeout=30
        )

    def _command(self, *words: str) -> Sequence[str]:
        where = ("--config", str(self.base / "crio.conf"), "--config-dir", str(self.drop_ins))
        return [sys.executable, "-m", "tests.fakes.crio", *where, *words]

    def reload(self, said: str = "Configuration reload completed") -> None:
        before = self.log().count(said)
        self.process.send_signal(signal.SIGHUP)
        self.wait_for(said, before + 1)

    def wait_for(self, said: str, times: int = 1) -> None:
        """In the log of this start."""
        until = time.monotonic() + 20
        while self.log().count(said) < times:
            assert time.monotonic() < until, self.log()
            time.sleep(0.01)

    def page(self, path: str) -> tuple[str, str]:
        """Status line and body of what it says over HTTP."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(self.socket)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: crio\r\n\r\n".encode())
            answer = b""
            while True:
                more = connection.recv(65536)
                if not more:
                    break
                answer += more
        head, _, body = answer.decode().partition("\r\n\r\n")
        return head.splitlines()[0], body

    def end(self) -> int:
        """In good order."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def restart(self, *flags: str) -> None:
        assert self.end() == 0, self.log()
        self.start(*flags)

    def load_image(self) -> None:
        self.behind.load_image()

    def log(self) -> str:
        """Of this start."""
        return (self.base / "log").read_bytes()[self._log_from :].decode()

    def marks(self) -> list[str]:
        folder = self.base / "marks"
        return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []

    def close(self) -> None:
        """Also after a failed test. Nobody may have left a mark."""
        if hasattr(self, "process") and self.process.poll() is None:
            self.kill()
        self._notified.close()
        assert self.marks() == []

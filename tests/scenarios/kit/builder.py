# SPDX-License-Identifier: Apache-2.0
"""Builds worlds and looks at them: one process that has all loaded, and a fork with pid and mount namespaces of
its own for each world. Started by Builder; a name a line comes in, a look a line goes out."""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple

import msgspec

from ostreewatchd.model import History, Snapshot
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.look import look
from ostreewatchd.replay import form
from tests.host.namespace import ROOT, remove_cgroups
from tests.scenarios.kit.catalogue import Scenario, scenario, scenarios
from tests.scenarios.kit.confined import confine
from tests.scenarios.kit.host import ScenarioHost

_LIMIT = 30.0
_CLONE_NEWNS, _CLONE_NEWPID = 0x20000, 0x20000000
_PR_SET_PDEATHSIG, _SIGKILL = 1, 9


class Looks(NamedTuple):
    """At one world, without stand-ins."""

    root: Snapshot
    """As a person or the remediation looks."""
    watcher: Snapshot
    """As the watcher looks, out of its confinement."""


class Failed(Exception):
    """The world could not be built or looked at; the text says where."""


class Builder:
    """The other end; closed by `with`."""

    def __init__(self) -> None:
        self._token = f"ostreewatchd-test-{os.getpid()}-{time.monotonic_ns()}"
        self._folder = tempfile.mkdtemp(prefix="scenarios-")
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-W", "error", "-m", __name__]
        self._process = subprocess.Popen(
            # The last one is room for the command lines of the daemons that processes here pretend to be.
            [*command, self._folder, "-" * 400],
            cwd=ROOT,
            env={**os.environ, "OSTREEWATCHD_TEST": json.dumps({"token": self._token, "arguments": {}})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Builder:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=_LIMIT)
        remove_cgroups(self._token)
        shutil.rmtree(self._folder)

    def looks(self, name: str) -> Looks:
        """Build the world and look at it. Raises Failed."""
        asked, answers = self._process.stdin, self._process.stdout
        assert asked is not None and answers is not None
        asked.write(name.encode() + b"\n")
        asked.flush()
        if not select.select([answers], [], [], _LIMIT)[0]:
            self._process.kill()
            raise Failed(f"{name}: no answer within {_LIMIT:g} s")
        answer = answers.readline()
        if not answer.startswith(b"{"):
            raise Failed(f"{name}: {answer.decode()!r}" if answer else f"{name}: the builder ended")
        fields = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
        if "error" in fields:
            raise Failed(msgspec.json.decode(fields["error"], type=str))
        return Looks(form.load(fields["root"]), form.load(fields["watcher"]))


def serve(folder: Path) -> None:
    """Until the input ends."""
    scenarios()
    libc = ctypes.CDLL(None, use_errno=True)
    for number, line in enumerate(sys.stdin):
        one = scenario(line.strip())
        ours, theirs = os.pipe()
        os.mkdir(folder / str(number))
        first = os.fork()
        if first == 0:
            try:
                libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
                # Ids of mount namespaces grow on one CPU alone (Linux 6.18), and only a younger one can be held by a
                # bind.
                os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
                if libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID) != 0:
                    raise OSError(ctypes.get_errno(), "unshare")
                if os.fork() == 0:
                    libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
                    _world(one, folder / str(number), theirs)
                os.close(theirs)
                os.wait()
            finally:
                os._exit(0)
        os.close(theirs)
        with os.fdopen(ours, "rb") as file:
            answer = file.read()
        os.waitpid(first, 0)
        sys.stdout.buffer.write((answer or b'{"error": "no answer"}') + b"\n")
        sys.stdout.buffer.flush()


def _world(one: Scenario, folder: Path, tell: int) -> None:
    """As PID 1 of the world; all that it started ends with it."""
    try:
        host = ScenarioHost(folder, one.layout)
        assert one.build is not None, f"{one.name} is written by hand"
        one.build(host)
        answer = b'{"root": ' + _look(one) + b', "watcher": ' + _confined_look(one) + b"}"
    except BaseException:  # noqa: BLE001 (who asked shows it)
        answer = msgspec.json.encode({"error": f"{one.name}: {traceback.format_exc()}"})
    finally:
        with os.fdopen(tell, "wb") as file:
            file.write(answer)
        os._exit(0)


def _look(one: Scenario, *, remember: bool = False) -> bytes:
    looker = ContainerLooker(remember=remember)
    try:
        return form.encode(look(one.settings, looker, History())).replace(b"\n", b"")
    finally:
        looker.close()


def _confined_look(one: Scenario) -> bytes:
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(ours)
            confine()
            answer = _look(one, remember=True)
        except BaseException:  # noqa: BLE001 (who asked shows it)
            answer = b"error" + traceback.format_exc().encode()
        finally:
            with os.fdopen(theirs, "wb") as file:
                file.write(answer)
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    if not answer.startswith(b"{"):
        raise Failed(f"confined: {answer.decode()}")
    return answer


if __name__ == "__main__":
    serve(Path(sys.argv[1]))

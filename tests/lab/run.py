# SPDX-License-Identifier: Apache-2.0
"""The one place where the lab runs other programs: always with a time limit, never left behind."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Optional, Union

from tests.lab.errors import CommandFailed

REPOSITORY = Path(__file__).resolve().parents[2]
_running: "set[subprocess.Popen[str]]" = set()


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    check: bool = True,
    input: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    cwd: Optional[Path] = None,
    log: Optional[Path] = None,
    shown: str = "",
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end; with `log`, what it prints goes there instead of into the result.

    `shown` is how an error names it, if not by its arguments."""
    shown = shown or shlex.join(argv)
    if log is None:
        return _run(argv, shown, timeout, check, input, env, cwd, None, None)
    with log.open("a") as stream:
        stream.write(f"$ {shown}\n")
        stream.flush()
        return _run(argv, shown, timeout, check, input, env, cwd, log, stream)


def _run(
    argv: Sequence[str],
    shown: str,
    timeout: float,
    check: bool,
    input: Optional[str],
    env: Optional[Mapping[str, str]],
    cwd: Optional[Path],
    log: Optional[Path],
    stream: Optional[IO[str]],
) -> "subprocess.CompletedProcess[str]":
    # setpriv: should the lab itself be killed, the program is too. A session of its own: when its time is
    # up, the whole family is ended, not only the child whose orphans would hold the pipe open.
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *argv],
        stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
        stdout=stream if stream is not None else subprocess.PIPE,
        stderr=subprocess.STDOUT if stream is not None else subprocess.PIPE,
        text=True,
        errors="replace",
        env=None if env is None else dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    _running.add(process)
    try:
        out, err = process.communicate(input, timeout)
    except subprocess.TimeoutExpired:
        _end(process)
        out, err = process.communicate(timeout=10)
        text = tail(log) if log is not None else (out or "") + (err or "")
        raise CommandFailed(f"not done after {timeout:g} s: {shown}", None, text, log) from None
    except BaseException:
        _end(process)
        process.communicate(timeout=10)
        raise
    finally:
        _running.discard(process)
    if check and process.returncode != 0:
        text = tail(log) if log is not None else (out or "") + (err or "")
        raise CommandFailed(f"exit status {process.returncode}: {shown}", process.returncode, text, log)
    return subprocess.CompletedProcess(list(argv), process.returncode, out or "", err or "")


def stop_all() -> None:
    """End what other threads are running: their calls fail."""
    for process in list(_running):
        _end(process)


def start_module(
    module: str, arguments: Sequence[str], output: Union[Path, None], pipe: bool = False
) -> "subprocess.Popen[bytes]":
    """Start one of the lab's own modules in a session of its own; it is the caller's to end."""
    stream = output.open("ab") if output is not None else None
    try:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE if pipe else subprocess.DEVNULL,
            stdout=stream if stream is not None else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            cwd=REPOSITORY,
            start_new_session=True,
        )
    finally:
        if stream is not None:
            stream.close()


def tail(log: Path, lines: int = 30) -> str:
    """The last lines of a file, read from its end."""
    with log.open("rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(max(0, stream.tell() - 64 * 1024))
        return "\n".join(stream.read().decode(errors="replace").splitlines()[-lines:])


def _end(process: "subprocess.Popen[str]") -> None:
    """Kill a program's whole session; it may have ended meanwhile."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()

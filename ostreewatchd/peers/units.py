# SPDX-License-Identifier: Apache-2.0
"""What systemd has of a unit and how it was loaded; restarts, reloads and starts one as a job, and waits for its end.

Source: org.freedesktop.systemd1(5): NeedDaemonReload, JobRemoved and its results; systemd.unit(5): what a restart is
propagated to."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from ostreewatchd.peers.systemd import Systemd, SystemdActs, SystemdError

_SERVICE = b"org.freedesktop.systemd1"
_PATH = b"/org/freedesktop/systemd1"
_MANAGER = b"org.freedesktop.systemd1.Manager"
_UNIT = b"org.freedesktop.systemd1.Unit"
_A_SERVICE = b"org.freedesktop.systemd1.Service"
_MOST = 64
_SLICE = 0.2
"""Seconds for which a wait freezes the interpreter: pystemd holds its lock."""


class Unit(NamedTuple):
    """A service as systemd has it by now."""

    name: str
    load: str
    active: str
    invocation: str
    """In hexadecimal; another one with each start, whoever asked for it. Empty: it does not run."""
    main_pid: int
    needs_daemon_reload: bool
    files: tuple[str, ...]
    """Its unit file, and then its drop-ins."""
    environment_files: tuple[str, ...]
    goes_along_with: frozenset[str]
    """Of which a restart restarts it, too: Requires=, BindsTo=, PartOf=."""
    active_since: float
    """Seconds of CLOCK_MONOTONIC; 0: never."""
    changed_state: float
    """When its state changed last: of one that is active, its start, or its last reload."""
    job: bool
    """A job of it is queued or runs."""


class JobEnd(NamedTuple):
    """How a job ended. `result` is systemd's word: done, canceled, timeout, failed, dependency, skipped; `unknown`
    where it did not come in time."""

    unit: str
    result: str


def unit(systemd: Systemd, name: str) -> Unit:
    """Raises SystemdError."""
    ask = systemd.property_of
    pid = int(ask(name, _A_SERVICE, b"MainPID", b"u"))
    invocation = ask(name, _UNIT, b"InvocationID", b"ay")
    active = _text(ask(name, _UNIT, b"ActiveState", b"s"))
    lists = [ask(name, _UNIT, key, b"as") for key in (b"Requires", b"BindsTo", b"PartOf")]
    drop_ins = [_text(one) for one in ask(name, _UNIT, b"DropInPaths", b"as")]
    fragment = _text(ask(name, _UNIT, b"FragmentPath", b"s"))
    environment = ask(name, _A_SERVICE, b"EnvironmentFiles", b"a(sb)")
    job = ask(name, _UNIT, b"Job", b"(uo)")
    return Unit(
        name=name,
        load=_text(ask(name, _UNIT, b"LoadState", b"s")),
        active=active,
        invocation=_hex(invocation) if active in ("active", "activating", "reloading", "deactivating") else "",
        main_pid=pid,
        needs_daemon_reload=bool(ask(name, _UNIT, b"NeedDaemonReload", b"b")),
        files=(fragment, *drop_ins[:_MOST]),
        environment_files=tuple(_text(one[0]) for one in environment)[:_MOST],
        goes_along_with=frozenset(_text(one) for found in lists for one in found),
        active_since=int(ask(name, _UNIT, b"ActiveEnterTimestampMonotonic", b"t")) / 1e6,
        changed_state=int(ask(name, _UNIT, b"StateChangeTimestampMonotonic", b"t")) / 1e6,
        job=bool(int(job[0])) if job else False,
    )


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _hex(value: Any) -> str:
    return bytes(value).hex() if value else ""


class UnitActs(SystemdActs):
    """The acting half. Each method raises SystemdError."""

    def run(self, method: str, unit: str, limit: float) -> tuple[JobEnd, ...]:
        """Queue a job (RestartUnit, ReloadUnit or StartUnit; what is queued already and contradicts is replaced) and
        wait for its end, `limit` seconds at the most: its end first, then those of others that ended meanwhile."""
        ends: list[tuple[str, JobEnd]] = []

        def removed(message: Any, error: Any = None, userdata: Any = None) -> None:
            message.process_reply(True)
            if len(message.body or ()) == 4:
                _, path, name, result = message.body
                ends.append((_text(path), JobEnd(_text(name), _text(result))))

        try:
            self._bus.match_signal(None, _PATH, _MANAGER, b"JobRemoved", removed)
            answer = self._bus.call_method(
                _SERVICE, _PATH, _MANAGER, method.encode(), self._arguments(b"ss", [unit.encode(), b"replace"])
            )
            job = _text(answer.body)
            end = time.monotonic() + limit
            while not any(path == job for path, _ in ends) and time.monotonic() < end:
                # What has come is worked on until nothing is left; then it is waited for more.
                if self._bus.process().is_empty():
                    self._bus.wait(int(_SLICE * 1e6))
        except self._error as error:
            raise SystemdError(
                f"systemd, asked for {method} of {unit}: {self._told(error)}", f"see `systemctl status {unit}`"
            ) from error
        mine = next((one for path, one in ends if path == job), JobEnd(unit, "unknown"))
        return (mine, *(one for path, one in ends[-_MOST:] if path != job))

    def daemon_reload(self) -> None:
        """Have systemd read all unit files anew."""
        try:
            self._bus.call_method(_SERVICE, _PATH, _MANAGER, b"Reload", self._arguments(b"", []))
        except self._error as error:
            raise SystemdError(
                f"systemd, asked to read its unit files anew: {self._told(error)}", "see `systemctl daemon-reload`"
            ) from error

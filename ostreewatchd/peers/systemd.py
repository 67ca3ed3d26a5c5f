# SPDX-License-Identifier: Apache-2.0
"""systemd's manager, over PID 1's private socket: it answers root also while the system bus does not.

pystemd holds the interpreter's lock during a call, so only the remediation and a person's command load this;
SYSTEMD_BUS_TIMEOUT bounds each call."""

from __future__ import annotations

import errno
import os
from types import TracebackType
from typing import Any, NamedTuple, Optional, TypeVar

from ostreewatchd.peers.errors import PeerError

_TIMEOUT = "3"
_ADDRESS = b"unix:path=/run/systemd/private"
_SERVICE = b"org.freedesktop.systemd1"
_PATH = b"/org/freedesktop/systemd1"
_MANAGER = b"org.freedesktop.systemd1.Manager"
_Self = TypeVar("_Self", bound="Systemd")


_UNIT = b"org.freedesktop.systemd1.Unit"
_SERVICE_UNIT = b"org.freedesktop.systemd1.Service"
_MAX_LISTED = 200


class ServiceState(NamedTuple):
    """A service's properties by systemd's names (org.freedesktop.systemd1(5)); times are seconds of CLOCK_MONOTONIC,
    0 for never."""

    load: str
    active: str
    sub: str
    result: str
    invocation: str
    """The InvocationID as hexadecimal digits: another one with each start. Empty: it was not started in this boot."""
    main_pid: int
    restarts: int
    """NRestarts: only the automatic ones; a start by hand sets it back."""
    began_at: float
    """InactiveExitTimestamp: when the newest start was tried, whether or not it came to `active`."""
    active_at: float


class SystemdError(PeerError):
    """systemd could not be asked, did not answer in time, or refused."""


class Systemd:
    """The reading half. Used in a `with`; each method raises SystemdError."""

    def __init__(self, timeout: str = _TIMEOUT) -> None:
        """`timeout`: seconds that each call may last. Raises SystemdError."""
        os.environ["SYSTEMD_BUS_TIMEOUT"] = timeout
        # Here and not above: sd-bus reads the time limit when it opens.
        from pystemd import dbusexc, dbuslib

        self._error: type[Exception] = dbusexc.DBusBaseError
        self._arguments: Any = dbuslib.apply_signature
        self._bus: Any = dbuslib.DBusAddress(_ADDRESS, peer_to_peer=True)
        try:
            self._bus.open()
        except self._error as error:
            denied = abs(getattr(error, "errno", 0)) in (errno.EACCES, errno.EPERM)
            hint = "this needs root" if denied else "is systemd PID 1 here, and is this the host itself?"
            raise SystemdError(f"systemd at {_ADDRESS.decode()}: {_text(error)}", hint) from error

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(
        self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._bus.close()

    def state(self) -> str:
        """Manager.SystemState: initializing, starting, running, degraded, maintenance, stopping."""
        return self._string(_PATH, _MANAGER, b"SystemState")

    def soft_reboots(self) -> int:
        """Manager.SoftRebootsCount: how often userspace was started anew in this boot. An error too where systemd is
        older than 254."""
        return int(self._property(_PATH, _MANAGER, b"SoftRebootsCount", b"u"))

    def unit_state(self, unit: str) -> str:
        """The unit's ActiveState, or `not-found`."""
        path = _unit_path(unit)
        if self._string(path, _UNIT, b"LoadState") == "not-found":
            return "not-found"
        return self._string(path, _UNIT, b"ActiveState")

    def service(self, unit: str) -> ServiceState:
        """All that is asked about a service. Several calls: a start between two of them shows in the next look."""
        path = _unit_path(unit)
        invocation = self._property(path, _UNIT, b"InvocationID", b"ay")
        return ServiceState(
            load=self._string(path, _UNIT, b"LoadState"),
            active=self._string(path, _UNIT, b"ActiveState"),
            sub=self._string(path, _UNIT, b"SubState"),
            result=self._string(path, _SERVICE_UNIT, b"Result"),
            invocation=bytes(invocation or b"").hex(),
            main_pid=int(self._property(path, _SERVICE_UNIT, b"MainPID", b"u")),
            restarts=int(self._property(path, _SERVICE_UNIT, b"NRestarts", b"u")),
            began_at=int(self._property(path, _UNIT, b"InactiveExitTimestampMonotonic", b"t")) / 1e6,
            active_at=int(self._property(path, _UNIT, b"ActiveEnterTimestampMonotonic", b"t")) / 1e6,
        )

    def failed(self, pattern: str) -> list[tuple[str, float]]:
        """Units that have failed and whose name is of the shell pattern; when they did, in seconds of
        CLOCK_MONOTONIC."""
        arguments = self._arguments(b"asas", [[b"failed"], [pattern.encode()]])
        try:
            answer = self._bus.call_method(_SERVICE, _PATH, _MANAGER, b"ListUnitsByPatterns", arguments)
        except self._error as error:
            raise SystemdError(f"systemd, asked for {pattern}: {_text(error)}", "see `systemctl status`") from error
        found = []
        for entry in list(answer.body or [])[:_MAX_LISTED]:
            name = entry[0].decode("utf-8", "replace")
            at = self._property(_unit_path(name), _UNIT, b"StateChangeTimestampMonotonic", b"t")
            found.append((name, int(at) / 1e6))
        return found

    def property_of(self, unit: str, interface: bytes, name: bytes, kind: bytes) -> Any:
        """A unit's property, of that D-Bus type."""
        return self._property(_unit_path(unit), interface, name, kind)

    def status_text(self, service: str) -> str:
        """What the service says of itself: STATUS= of sd_notify(3)."""
        return self._string(_unit_path(service), _SERVICE_UNIT, b"StatusText")

    def _told(self, error: Exception) -> str:
        return _text(error)

    def _string(self, path: bytes, interface: bytes, name: bytes) -> str:
        value = self._property(path, interface, name, b"s")
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def _property(self, path: bytes, interface: bytes, name: bytes, kind: bytes) -> Any:
        try:
            return self._bus.get_property(_SERVICE, path, interface, name, kind)
        except self._error as error:
            raise SystemdError(
                f"systemd, asked for {name.decode()}: {_text(error)}", "see `systemctl status`"
            ) from error


class SystemdActs(Systemd):
    """The acting half."""

    def restart_if_running(self, unit: str) -> None:
        """Queue a restart of `unit` if it is active and do not wait for the job."""
        self._queue(b"TryRestartUnit", unit)

    def restart(self, unit: str) -> None:
        """Queue a restart, or a start, of `unit` and do not wait for the job."""
        self._queue(b"RestartUnit", unit)

    def _queue(self, method: bytes, unit: str) -> None:
        try:
            self._bus.call_method(
                _SERVICE, _PATH, _MANAGER, method, self._arguments(b"ss", [unit.encode(), b"replace"])
            )
        except self._error as error:
            raise SystemdError(
                f"systemd, asked to restart {unit}: {_text(error)}", f"see `systemctl status {unit}`"
            ) from error


def _unit_path(unit: str) -> bytes:
    return _PATH + b"/unit/" + "".join(c if c.isalnum() else f"_{ord(c):02x}" for c in unit).encode()


def _text(error: Exception) -> str:
    """What the kernel or systemd said. Without the words that the library adds to an error that it has no type for."""
    code = getattr(error, "errno", None)
    kernels = os.strerror(abs(code)) if isinstance(code, int) and code else ""
    text = " ".join(str(getattr(error, "err_message", "")).split())[:200]
    return ": ".join(one for one in (text, kernels) if one) or type(error).__name__

# SPDX-License-Identifier: Apache-2.0
"""systemd's manager, over PID 1's private socket: it answers root also while the system bus does not.

pystemd holds the interpreter's lock during a call, so only the remediation and a person's command load this;
SYSTEMD_BUS_TIMEOUT bounds each call."""

from __future__ import annotations

import errno
import os
from types import TracebackType
from typing import Any, Optional, TypeVar

from ostreewatchd.peers.errors import PeerError

_TIMEOUT = "3"
_ADDRESS = b"unix:path=/run/systemd/private"
_SERVICE = b"org.freedesktop.systemd1"
_PATH = b"/org/freedesktop/systemd1"
_MANAGER = b"org.freedesktop.systemd1.Manager"
_Self = TypeVar("_Self", bound="Systemd")


class SystemdError(PeerError):
    """systemd could not be asked, did not answer in time, or refused."""


class Systemd:
    """The reading half. Used in a `with`; each method raises SystemdError."""

    def __init__(self) -> None:
        os.environ["SYSTEMD_BUS_TIMEOUT"] = _TIMEOUT
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
        interface = b"org.freedesktop.systemd1.Unit"
        if self._string(path, interface, b"LoadState") == "not-found":
            return "not-found"
        return self._string(path, interface, b"ActiveState")

    def status_text(self, service: str) -> str:
        """What the service says of itself: STATUS= of sd_notify(3)."""
        return self._string(_unit_path(service), b"org.freedesktop.systemd1.Service", b"StatusText")

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
    said = " ".join(str(getattr(error, "err_message", "")).split())[:200]
    return ": ".join(one for one in (said, kernels) if one) or type(error).__name__

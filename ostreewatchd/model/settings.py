# SPDX-License-Identifier: Apache-2.0
"""The settings, with their defaults."""

from __future__ import annotations

from typing import Literal

from ostreewatchd.model.record import Record

Mode = Literal["heal", "observe"]
Lock = Literal["", "none"]
"""What keeps two nodes from restarting their runtimes at once. Empty: nothing is configured, and none is restarted."""


_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Window(Record, frozen=True, kw_only=True):
    """A time of the week, in UTC, in which restarts are allowed. Minutes; a week begins on Monday at 00:00."""

    start: int
    minutes: int

    def __str__(self) -> str:
        def moment(minute: int) -> str:
            return f"{_DAYS[minute // 1440 % 7]} {minute // 60 % 24:02d}:{minute % 60:02d}"

        return f"{moment(self.start)}-{moment(self.start + self.minutes)}"


class Settings(Record, frozen=True, kw_only=True):
    """All settings with their defaults. A key in the configuration file is a field here."""

    mode: Mode = "heal"
    settle: float = 0.3
    """Seconds without a relevant mount after which the host counts as quiet."""
    settle_cap: float = 600.0
    """Seconds after which waiting for quiet becomes a report."""
    resync: float = 300.0
    """Seconds between looks that nothing asked for."""
    proof: float = 90.0
    """Seconds that kubelet has to start a stopped container again."""
    per_switch: int = 20
    """Restarts that one switch may cost."""
    per_hour: int = 40
    """Restarts in an hour, whatever the switch."""
    restart_silent_writers: bool = False
    """Whether a writer of a credential that has expired is restarted, once."""
    lock: Lock = ""
    """What must be held before a runtime is restarted."""
    windows: tuple[Window, ...] = ()
    """Outside of these nothing is restarted. Empty: always allowed."""
    kubelet_token: str = ""
    """File of a bearer token for kubelet's API (10250). Empty: none."""
    kubelet_certificate: str = ""
    """File of a client certificate for it."""
    kubelet_key: str = ""
    """File of the certificate's key; empty: it is in the certificate's file."""
    kubelet_authority: str = ""
    """File of the certificates that sign kubelet's serving certificate; empty: it is compared with kubelet's own
    file."""
    cni_directories: tuple[str, ...] = ()
    """CNI configuration directories besides the platform's own."""

# SPDX-License-Identifier: Apache-2.0
"""Restarts a unit through systemd, without waiting for it."""

from __future__ import annotations

from ostreewatchd.peers.systemd import SystemdActs


def restart_if_running(unit: str) -> None:
    """Queue a restart of `unit` if it is active. Raises SystemdError."""
    with SystemdActs() as systemd:
        systemd.restart_if_running(unit)


def restart_if_failed(unit: str) -> bool:
    """Queue a start of `unit` if it has failed; whether it had. One that was stopped stays so. Raises
    SystemdError."""
    with SystemdActs() as systemd:
        if systemd.unit_state(unit) != "failed":
            return False
        systemd.restart(unit)
        return True


def arm(timer: str) -> None:
    """Queue a start of the timer, from its beginning if it runs already. Raises SystemdError."""
    with SystemdActs() as systemd:
        systemd.restart(timer)

# SPDX-License-Identifier: Apache-2.0
"""Restarts a unit through systemd, without waiting for it."""

from __future__ import annotations

from ostreewatchd.peers.systemd import SystemdActs


def restart_if_running(unit: str) -> None:
    """Queue a restart of `unit` if it is active. Raises SystemdError."""
    with SystemdActs() as systemd:
        systemd.restart_if_running(unit)

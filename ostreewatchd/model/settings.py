# SPDX-License-Identifier: Apache-2.0
"""The settings, with their defaults."""

from __future__ import annotations

from typing import Literal

from ostreewatchd.model.record import Record

Mode = Literal["heal", "observe"]


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
    cni_directories: tuple[str, ...] = ()
    """CNI configuration directories besides the platform's own."""

# SPDX-License-Identifier: Apache-2.0
"""What differs between platforms, as one frozen table each."""

from __future__ import annotations

from ostreewatchd.platforms.table import FlagFile, MovingLink, Platform
from ostreewatchd.platforms.tables import GENERIC, PLATFORMS

__all__ = ["GENERIC", "PLATFORMS", "FlagFile", "MovingLink", "Platform"]

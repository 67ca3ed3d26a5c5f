# SPDX-License-Identifier: Apache-2.0
"""What differs between platforms, as one frozen table each; and what is looked for on all."""

from __future__ import annotations

from ostreewatchd.platforms.flags import FLAGS, FlagFile
from ostreewatchd.platforms.table import MovingLink, Platform
from ostreewatchd.platforms.tables import GENERIC, PLATFORMS

__all__ = ["FLAGS", "GENERIC", "PLATFORMS", "FlagFile", "MovingLink", "Platform"]

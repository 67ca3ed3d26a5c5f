# SPDX-License-Identifier: Apache-2.0
"""What scenarios are written with; how they are built, recorded and judged is in the modules here."""

from __future__ import annotations

from tests.fakes.credentials import HOUR
from tests.host.fakehost import CNI, NEW, OLD, Bind, bind, mount, umount, unshare_mounts
from tests.scenarios.kit.calls import move_beneath, silent_filesystem
from tests.scenarios.kit.expect import Expected
from tests.scenarios.kit.host import HOST_CNI, PRIVATE, SLAVE, Layout, ScenarioHost
from tests.scenarios.kit.standins import answered, clock_set, remembered

__all__ = [
    "CNI",
    "HOST_CNI",
    "HOUR",
    "NEW",
    "OLD",
    "PRIVATE",
    "SLAVE",
    "Bind",
    "Expected",
    "Layout",
    "ScenarioHost",
    "answered",
    "bind",
    "clock_set",
    "mount",
    "move_beneath",
    "remembered",
    "silent_filesystem",
    "umount",
    "unshare_mounts",
]

# SPDX-License-Identifier: Apache-2.0
"""An overlay over /usr was taken away while a container held a piece of it: the filesystem lives on in the container
alone, and the host has it mounted nowhere."""

from __future__ import annotations

from tests.host.fakehost import umount
from tests.scenarios.kit import Bind, Expected, ScenarioHost

REPORTED = ("flatcar/Flatcar#1328", "systemd/systemd#37245")


def build(host: ScenarioHost) -> None:
    host.overlay("/usr")
    host.container("modules", [Bind("/usr/lib/modules", "/lib/modules", writable=False)])
    umount("/usr")


EXPECT = Expected(
    findings=(("stale-mount", "noted", "modules", "/usr/lib/modules", "mounted nowhere any more"),),
)

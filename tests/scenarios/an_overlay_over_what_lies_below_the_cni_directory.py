# SPDX-License-Identifier: Apache-2.0
"""An overlay was put over a directory below /etc/cni/net.d. That is another tree on the same point, and no
replacement in place: what the container writes there is lost."""

from __future__ import annotations

import os

from tests.scenarios.kit import CNI, Bind, Expected, Layout, ScenarioHost

REPORTED = ("rancher/rke2#8356",)
LAYOUT = Layout.PLAIN
DIRECTORY = f"{CNI}/whereabouts.d"


def build(host: ScenarioHost) -> None:
    os.mkdir(DIRECTORY)
    host.container("whereabouts", [Bind(DIRECTORY, "/host/whereabouts.d")])
    host.overlay(DIRECTORY)


EXPECT = Expected(
    findings=(("stale-mount", "owed", "whereabouts", DIRECTORY, "no longer reaches the host"),),
    steps=("stop-container whereabouts",),
)

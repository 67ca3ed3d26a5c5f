# SPDX-License-Identifier: Apache-2.0
"""The patch's own script will restart the pods in a moment: it is left to do so."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 23d2727 (Launchpad 2144903)",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    Path("/run/software_run_post_install").touch()


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("switch-in-progress", "", "post-install script is still to run"),),
)

# SPDX-License-Identifier: Apache-2.0
"""All four binds are there and the patch still says that it is mounting: found, and nothing is stopped before it
says that it is done."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 83fb74a (Launchpad 1999447)",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    Path("/run/mount_pending").touch()


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("switch-in-progress", "", "/run/mount_pending"),),
)

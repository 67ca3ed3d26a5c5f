# SPDX-License-Identifier: Apache-2.0
"""/usr is mounted, /etc not yet, and the patch says that it is mounting: that is how each switch looks for a
moment."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 83fb74a (Launchpad 1999447)",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch(etc=False)
    host.write("/run/mount_pending")


EXPECT = Expected()

# SPDX-License-Identifier: Apache-2.0
"""The in-service patch mounted /usr and failed before /etc. What the containers have is what the host has; the
host is what is wrong."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 83fb74a (Launchpad 1999447)", "starlingx/update 8422b68 (Launchpad 1999262)")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch(etc=False)


EXPECT = Expected(findings=(("split-tree", "wrong", "host", "/etc", "has stopped half-way"),))

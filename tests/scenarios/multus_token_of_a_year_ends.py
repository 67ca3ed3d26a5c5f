# SPDX-License-Identifier: Apache-2.0
"""The token of a year ended. The mount is fine: nothing is found here."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/ansible-playbooks 3f409902 (Launchpad 2090964)",)


def build(host: ScenarioHost) -> None:
    host.old_token("multus-watcher")
    host.patch()
    host.container("multus-watcher", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

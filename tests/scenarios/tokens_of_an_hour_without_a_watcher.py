# SPDX-License-Identifier: Apache-2.0
"""Extended tokens are off and the watcher is disabled: an hour after each start it is over. The mount is fine:
nothing is found here."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("rancher/rke2#9313",)


def build(host: ScenarioHost) -> None:
    host.old_token("kube-multus")
    host.patch()
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

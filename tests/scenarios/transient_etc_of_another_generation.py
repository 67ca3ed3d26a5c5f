# SPDX-License-Identifier: Apache-2.0
"""A second transient /etc was put over the first: neither names a deployment, and devices alone tell them apart."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, Layout, ScenarioHost

REPORTED = ("ostreedev/ostree#3161",)
LAYOUT = Layout.TRANSIENT_ETC


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.overlay("/etc")


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

# SPDX-License-Identifier: Apache-2.0
"""The booted deployment could not be told by stat(2): `/` is composefs and /etc a transient overlay, so no mount
names a deployment. The container has what the host has, and nothing is found."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, Layout, ScenarioHost

REPORTED = ("ostreedev/ostree#3161", "ostreedev/ostree#3164")
LAYOUT = Layout.TRANSIENT_ETC


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind("/", "/rootfs"), Bind(CNI, HOST_CNI)])


EXPECT = Expected()

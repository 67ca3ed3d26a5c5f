# SPDX-License-Identifier: Apache-2.0
"""CALICO_MANAGE_CNI=false: nobody renews the token. The mount is fine: nothing is found here."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("projectcalico/calico#6546",)


def build(host: ScenarioHost) -> None:
    host.old_token("calico-node")
    host.patch()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

# SPDX-License-Identifier: Apache-2.0
"""CALICO_MANAGE_CNI=false: nobody renews the token, which is over. calico-node runs, and its mount is fine."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = ("projectcalico/calico#6546",)


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("calico", since=25 * HOUR)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(findings=(("token-expired", "wrong", "host", f"{CNI}/calico-kubeconfig", "it has expired"),))

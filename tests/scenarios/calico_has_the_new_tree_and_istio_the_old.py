# SPDX-License-Identifier: Apache-2.0
"""istio's CNI container kept the old directory while calico-node was started anew after the patch. Restarting
another CNI pod only seemed to help there: the one that is stale is restarted, and no other."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("istio/istio#38077", "istio/istio#54303")


def build(host: ScenarioHost) -> None:
    host.container("install-cni", [Bind(CNI, HOST_CNI)])
    host.patch()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(("stale-mount", "owed", "install-cni", CNI, "no longer reaches the host"),),
    steps=("stop-container install-cni",),
)

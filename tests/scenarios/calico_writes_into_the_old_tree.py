# SPDX-License-Identifier: Apache-2.0
"""An in-service patch mounted a new deployment over /usr and /etc. calico-node kept the old /etc/cni/net.d: it
renews its token there, nothing of it reaches the host, and a day later the CNI answers `Unauthorized` to each new
pod."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 23d2727 (Launchpad 2144903)", "projectcalico/calico#9428", "projectcalico/calico#9295")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI), Bind("/var", "/var")], link=True)
    host.container("kube-multus", [Bind(CNI, HOST_CNI)], bundle=False, link=True)
    host.container("coredns")
    host.patch()


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", CNI, "shows deployment debian-aaaaaaaaaa.0, the host has debian-bbbb"),
        ("stale-mount", "owed", "kube-multus", CNI, "what it writes there no longer reaches the host"),
    ),
    steps=("stop-container calico-node", "stop-container kube-multus"),
)

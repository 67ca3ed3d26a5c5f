# SPDX-License-Identifier: Apache-2.0
"""The CNI configuration of an uninstalled DaemonSet was left on the node, its token bound to a pod that is gone. No
container writes it any more: there is nothing to restart, and somebody has to remove it."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = ("istio/istio#57788", "istio/istio#58111")


def build(host: ScenarioHost) -> None:
    for at in (CNI, f"{host.tree()}{CNI}"):
        host.token("istio-cni", since=24 * HOUR, lasts=365 * 24 * HOUR, warns=3607, pod="istio-cni-node-x1", at=at)
    host.container("coredns", [Bind("/var", "/data")])
    host.kubelets_pods("uid-of-coredns-x1")
    host.patch()


EXPECT = Expected(
    findings=(("token-orphaned", "wrong", "host", f"{CNI}/ZZZ-istio-cni-kubeconfig", "not on this node any more"),),
)

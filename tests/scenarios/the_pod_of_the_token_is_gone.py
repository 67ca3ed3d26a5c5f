# SPDX-License-Identifier: Apache-2.0
"""The token in the kubeconfig was bound to a pod that was evicted, and died with it, long before its end. The
container that runs now has the right directory, and did not write its own: that is said, and nothing is restarted."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = (
    "projectcalico/calico#4857",
    "aws/amazon-vpc-cni-k8s#1868",
    "spidernet-io/spiderpool#2182",
)


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("calico", since=HOUR, pod="calico-node-x0")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.kubelets_pods("uid-of-calico-node-x1")


EXPECT = Expected(
    findings=(
        ("token-orphaned", "wrong", "host", f"{CNI}/calico-kubeconfig", "its pod is not on this node any more"),
    ),
)

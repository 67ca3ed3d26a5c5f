# SPDX-License-Identifier: Apache-2.0
"""The token in the kubeconfig was bound to a pod that was evicted, and died with it. The container that runs now
has the right directory: nothing is found here."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = (
    "projectcalico/calico#4857",
    "aws/amazon-vpc-cni-k8s#1868",
    "spidernet-io/spiderpool#2182",
)


def build(host: ScenarioHost) -> None:
    host.old_token("calico-node")
    host.patch()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

# SPDX-License-Identifier: Apache-2.0
"""The token in the kubeconfig was bound to a pod that was evicted, and died with it. The container that runs now
has the right directory: nothing is found here."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = (
    "projectcalico/calico#4857",
    "aws/amazon-vpc-cni-k8s#1868",
    "spidernet-io/spiderpool#2182",
)
KUBECONFIG = f"{CNI}/calico-node-kubeconfig"


def build(host: ScenarioHost) -> None:
    Path(KUBECONFIG).write_text("token: a-secret-of-last-week")
    os.chmod(KUBECONFIG, 0o600)
    last_week = time.time() - 7 * 86400
    os.utime(KUBECONFIG, (last_week, last_week))
    host.patch()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

# SPDX-License-Identifier: Apache-2.0
"""Multus (thin) wrote a bound token once and never again. The mount is fine: nothing is found here."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = (
    "k8snetworkplumbingwg/multus-cni#852",
    "k8snetworkplumbingwg/multus-cni#1263",
    "Mellanox/network-operator#1363",
)
KUBECONFIG = f"{CNI}/kube-multus-kubeconfig"


def build(host: ScenarioHost) -> None:
    Path(KUBECONFIG).write_text("token: a-secret-of-last-week")
    os.chmod(KUBECONFIG, 0o600)
    last_week = time.time() - 7 * 86400
    os.utime(KUBECONFIG, (last_week, last_week))
    host.patch()
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

# SPDX-License-Identifier: Apache-2.0
"""kubelet lives in a mount namespace that was left behind, and it is kubelet that binds a subPath: restarted, the
container would get the old directory again, by way of kubelet's volume; nothing names its unit."""

from __future__ import annotations

import os

from tests.scenarios.kit import CNI, HOST_CNI, PRIVATE, Bind, Expected, ScenarioHost, bind

REPORTED = (
    "kubernetes/kubernetes#139123",
    "openshift/enhancements#593",
)
SUBPATH = "/var/lib/kubelet/pods/uid-of-kube-multus-x1/volume-subpaths/cni/kube-multus/0"


def build(host: ScenarioHost) -> None:
    os.makedirs(SUBPATH)
    bind(CNI, SUBPATH)
    host.process("kubelet", propagation=PRIVATE)
    host.container("kube-multus", [Bind(SUBPATH, HOST_CNI)])
    host.patch()


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "noted", "kubelet", "/etc", "for what it mounts for pods"),
        (
            "runtime-namespace",
            "unknown",
            "kube-multus",
            CNI,
            "kubelet, which binds this subPath, is in mount namespace",
        ),
    ),
    status=3,
)

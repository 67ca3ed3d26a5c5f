# SPDX-License-Identifier: Apache-2.0
"""The old deployment was cleaned up under a container that still has its /etc/cni/net.d: the mount's root ends in
`//deleted`, and each file that it creates there fails."""

from __future__ import annotations

import shutil

from tests.scenarios.kit import CNI, HOST_CNI, OLD, Bind, Expected, ScenarioHost, umount

REPORTED = ("kubernetes/kubernetes#139535", "kubernetes/kubernetes#139123", "canonical/microk8s#4184")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    # The patch hides the old tree on the disk, too.
    umount(f"{host.tree(OLD)}/etc")
    shutil.rmtree(f"{host.tree(OLD)}{CNI}")


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

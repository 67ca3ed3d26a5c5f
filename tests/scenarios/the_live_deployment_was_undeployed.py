# SPDX-License-Identifier: Apache-2.0
"""`ostree admin undeploy` removed the deployment that an in-service patch had mounted: libostree knows nothing of
such mounts. /usr and /etc are empty directories that nobody can write to."""

from __future__ import annotations

import shutil

from tests.scenarios.kit import CNI, HOST_CNI, OLD, Bind, Expected, ScenarioHost, umount

REPORTED = ("starlingx/update 83fb74a (Launchpad 1999447)",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    for point in ("usr/etc", "etc"):
        umount(f"{host.tree(OLD)}/{point}")
    shutil.rmtree(host.tree())


EXPECT = Expected(
    findings=(
        ("removed-live-tree", "wrong", "host", "/usr", "undeployed"),
        ("removed-live-tree", "wrong", "host", "/etc", "undeployed"),
        ("stale-mount", "unknown", "calico-node", CNI, "on the host: /etc/cni/net.d: No such file"),
    ),
    refusals=(("host-path-missing", "calico-node", "the host has no /etc/cni/net.d now"),),
)

# SPDX-License-Identifier: Apache-2.0
"""For some milliseconds of a refresh /etc has nothing of the extension. Nothing can be compared, and nothing is
done: the next look finds it there."""

from __future__ import annotations

import shutil

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, Layout, ScenarioHost, umount

REPORTED = ("flatcar/Flatcar#1328", "flatcar/init#138", "kubernetes-sigs/image-builder#1317")
LAYOUT = Layout.PLAIN


def build(host: ScenarioHost) -> None:
    host.overlay("/etc", source="confext")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    umount("/etc")
    shutil.rmtree("/etc/cni")


EXPECT = Expected(
    findings=(("stale-mount", "unknown", "calico-node", CNI, "on the host: /etc/cni/net.d: No such file"),),
    refusals=(("host-path-missing", "calico-node", "the host has no /etc/cni/net.d now"),),
)

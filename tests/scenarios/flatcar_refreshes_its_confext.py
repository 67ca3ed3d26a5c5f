# SPDX-License-Identifier: Apache-2.0
"""Flatcar refreshed its confext: the overlay on /etc was taken away and a new one put there. Who had
/etc/cni/net.d of the first keeps that, though nothing of OSTree is on the host."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, Layout, ScenarioHost, umount

REPORTED = ("flatcar/Flatcar#1328", "systemd/systemd#37245")
LAYOUT = Layout.PLAIN


def build(host: ScenarioHost) -> None:
    host.overlay("/etc", source="confext")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    umount("/etc")
    host.overlay("/etc", source="confext")
    host.container("late", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

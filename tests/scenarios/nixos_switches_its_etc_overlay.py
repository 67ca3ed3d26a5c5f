# SPDX-License-Identifier: Apache-2.0
"""NixOS put the overlay of a new /etc beneath the old one and took the old one away. A container that was given
/etc/cni/net.d before keeps that of the old overlay."""

from __future__ import annotations

import os
from pathlib import Path

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, Layout, ScenarioHost, move_beneath, umount

REPORTED = ("NixOS/nixpkgs#556436",)
LAYOUT = Layout.PLAIN


def build(host: ScenarioHost) -> None:
    host.overlay("/etc")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.container("following", [Bind("/", "/host", propagated=True)])
    os.mkdir("/run/etc")
    os.makedirs("/run/lower/cni/net.d")
    Path("/run/lower/cni/net.d/10-calico.conflist").touch()
    host.overlay("/run/etc", lower="/run/lower")
    move_beneath("/run/etc", "/etc")
    umount("/etc")
    umount("/run/etc")


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

# SPDX-License-Identifier: Apache-2.0
"""An overlay was put over /etc/cni: the directory has the inode number that it had, on another device, and who had
it before writes below the overlay."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("rancher/rke2#8356", "cri-o/cri-o#4276")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.overlay(CNI)
    host.container("late", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

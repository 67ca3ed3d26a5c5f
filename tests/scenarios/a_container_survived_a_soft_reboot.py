# SPDX-License-Identifier: Apache-2.0
"""A soft reboot: the boot id is the same, and `/` is another deployment. A container that was told to survive it
lives on in the old one."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("systemd/systemd#31922", "systemd/systemd#38068", "bootc-dev/bootc#1620", "ostreedev/ostree#3486")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.soft_reboot()
    host.container("late", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

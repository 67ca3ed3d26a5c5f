# SPDX-License-Identifier: Apache-2.0
"""A soft reboot is under way: userspace ends, and what is stale with it."""

from __future__ import annotations

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered, mount

REPORTED = (
    "systemd/systemd#32136",
    "ostreedev/ostree#3486",
)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    host.write("/run/nextroot/mark")
    mount("tmpfs", "/run/nextroot", "tmpfs")


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """systemd says that it is stopping."""
    return answered(snapshot, system="stopping")


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("soft-rebooting", "", "/run/nextroot has"),),
)

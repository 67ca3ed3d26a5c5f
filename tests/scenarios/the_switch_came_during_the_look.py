# SPDX-License-Identifier: Apache-2.0
"""A container was looked at before a mount and the host after it, four times in a row. What differs then may be
the same, and nothing is stale."""

from __future__ import annotations

import os

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, answered

REPORTED = ("flatcar/Flatcar#1328",)


def build(host: ScenarioHost) -> None:
    os.mkdir("/etc/gone")
    host.container("calico-node", [Bind(CNI, HOST_CNI), Bind("/etc/gone", "/gone")])
    host.patch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """A look cannot be held still for a mount; that one is known as torn is tested with the look itself."""
    return answered(msgspec.structs.replace(snapshot, torn="the host was switched during the look"))


EXPECT = Expected(
    findings=(
        ("stale-mount", "unknown", "calico-node", CNI, "so it is not known whether it shows deployment"),
        ("stale-mount", "unknown", "calico-node", "/etc/gone", "on the host: /etc/gone: No such file"),
    ),
    status=3,
)

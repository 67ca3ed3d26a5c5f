# SPDX-License-Identifier: Apache-2.0
"""`transactional-update apply` mounted the new snapshot's /usr and /etc over the running ones: snapshots of one
filesystem that is no OSTree, told apart by device and inode alone."""

from __future__ import annotations

import os
from pathlib import Path

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, Layout, ScenarioHost, bind

REPORTED = ("openSUSE/transactional-update (apply)",)
LAYOUT = Layout.PLAIN
NEXT = "/.snapshots/42/snapshot"


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI), Bind("/usr", "/usr", writable=False)])
    for name in ("usr", "etc/cni/net.d"):
        os.makedirs(f"{NEXT}/{name}")
    Path(f"{NEXT}{CNI}/10-calico.conflist").write_text("new")
    bind(f"{NEXT}/usr", "/usr", read_only=True)
    bind(f"{NEXT}/etc", "/etc")


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),
        ("stale-mount", "noted", "calico-node", "/usr", "is no CNI configuration directory"),
    ),
    steps=("stop-container calico-node",),
)

# SPDX-License-Identifier: Apache-2.0
"""`/` is composefs and /etc transient; the record tells which deployment is booted. /etc was remounted read-only,
which one that is made anew at each boot may be."""

from __future__ import annotations

import os

from ostreewatchd.model import Identity
from tests.scenarios.kit import CNI, HOST_CNI, OLD, Bind, Expected, Layout, ScenarioHost, mount, umount
from tests.unit.gvariant_writer import booted

REPORTED = (
    "ostreedev/ostree#3161",
    "ostreedev/ostree#3164",
)
LAYOUT = Layout.COMPOSEFS


def build(host: ScenarioHost) -> None:
    tree = os.stat(host.tree(OLD))
    root = Identity(dev=tree.st_dev, ino=tree.st_ino)
    transient = "/run/ostree/transient-etc.AbCdEf"
    host.write("/run/ostree-booted", booted(root, composefs=True, transient_etc=transient))
    umount("/etc")
    for name in ("upper", "work"):
        os.makedirs(f"{transient}/{name}")
    layers = f"lowerdir=/etc,upperdir={transient}/upper,workdir={transient}/work"
    mount("overlay", "/etc", "overlay", 1, layers)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

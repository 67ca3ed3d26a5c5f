# SPDX-License-Identifier: Apache-2.0
"""Something else was mounted over /sysroot of a composefs host: no deployment is seen, so that libostree's record
names none that is there. What containers hold is judged all the same."""

from __future__ import annotations

import os

from ostreewatchd.model import Identity
from tests.scenarios.kit import CNI, HOST_CNI, OLD, Bind, Expected, Layout, ScenarioHost, mount
from tests.unit.gvariant_writer import booted

REPORTED = ("ostreedev/ostree#3161",)
LAYOUT = Layout.COMPOSEFS


def build(host: ScenarioHost) -> None:
    tree = os.stat(host.tree(OLD))
    host.write("/run/ostree-booted", booted(Identity(dev=tree.st_dev, ino=tree.st_ino), composefs=True))
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    mount("tmpfs", "/sysroot", "tmpfs")


EXPECT = Expected(findings=(("unreadable-state", "unknown", "host", "/sysroot", "sysroot-hidden: "),))

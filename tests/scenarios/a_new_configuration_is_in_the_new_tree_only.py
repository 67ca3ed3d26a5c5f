# SPDX-License-Identifier: Apache-2.0
"""A legacy 05-multus.conf was left on remote nodes, in the new tree alone. What is there too much keeps no restart
back: the stale container is cured, and the leftover is another matter. What Multus makes at each start is none, nor
what another directory has, and what a container has that is fresh is no tree before."""

from __future__ import annotations

import os
from pathlib import Path

from ostreewatchd.model import Settings
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/ansible-playbooks 47796ba9 (Launchpad 2163616)",)


OTHERS = "/etc/cni/others"
SETTINGS = Settings(cni_directories=(OTHERS,))


def build(host: ScenarioHost) -> None:
    for tree in ("", host.tree()):
        os.mkdir(f"{tree}{OTHERS}")
        Path(f"{tree}{OTHERS}/05-multus.conf").write_text("{}")
    host.container("calico-node", [Bind(CNI, HOST_CNI), Bind(OTHERS, "/host/others")])
    for name in ("05-multus.conf", "00-first.conf", "99-loopback.conf", "00-multus.conflist", "99-multus.txt"):
        Path(f"{host.tree()}{CNI}/{name}").write_text("{}")
    host.patch()
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),
        ("stale-mount", "owed", "calico-node", OTHERS, "no longer reaches the host"),
        ("cni-config-foreign", "wrong", "host", f"{CNI}/00-first.conf", "takes it before all others"),
        ("cni-config-foreign", "wrong", "host", f"{CNI}/05-multus.conf", "the tree before had no such"),
        ("cni-config-foreign", "wrong", "host", f"{CNI}/99-loopback.conf", "the tree before had no such"),
    ),
    steps=("stop-container calico-node",),
)

# SPDX-License-Identifier: Apache-2.0
"""bootc's composefs backend has no OSTree deployment and no /run/ostree-booted: which is live is not known, and
the container is judged all the same."""

from __future__ import annotations

import os

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, Layout, ScenarioHost, mount

REPORTED = ("bootc-dev/bootc#1620",)
LAYOUT = Layout.PLAIN


def build(host: ScenarioHost) -> None:
    root = "/run/native"
    os.makedirs(root)
    os.mkdir("/run/none")
    mount("composefs:f00d", root, "overlay", 1, "lowerdir=/:/run/none")
    for name, kind in (("proc", "proc"), ("run", "tmpfs"), ("tmp", "tmpfs")):
        mount(kind, f"{root}/{name}", kind)
    os.makedirs(f"{root}/run/containerd")
    os.chroot(root)
    os.chdir("/")
    mount("tmpfs", "/etc", "tmpfs", data="mode=755")
    host.write(f"{CNI}/10-calico.conflist")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    mount("tmpfs", CNI, "tmpfs")
    host.write(f"{CNI}/10-calico.conflist")


EXPECT = Expected(
    findings=(
        ("composefs-native", "unknown", "host", "/", "bootc's composefs backend is not supported"),
        ("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),
    ),
    steps=("stop-container calico-node",),
)

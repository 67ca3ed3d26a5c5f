# SPDX-License-Identifier: Apache-2.0
"""What is there on one side only cannot be compared, and is not called stale: a bind that the container covered
with another piece of the host's disk, one whose directory the host lost, and a CNI directory that /etc has on one
side only. Where /etc has none on either side, nobody misses it, nor what a filesystem of the container's own
covers."""

from __future__ import annotations

import os
import shutil

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, bind, mount

REPORTED = ("kubernetes/kubernetes#128814", "flatcar/Flatcar#1328")


def build(host: ScenarioHost) -> None:
    os.mkdir("/etc/lost")
    os.mkdir("/sysroot/empty")
    inside = [Bind("/etc/lost", "/x"), Bind("/usr/lib/modules", "/x/modules", writable=False)]
    os.mkdir("/etc/lost/modules")
    host.container("below-the-lost", inside)
    host.container(
        "covered", [Bind("/sysroot/empty", "/empty"), Bind(CNI, HOST_CNI)], body=lambda: bind("/empty", "/host")
    )
    host.container("by-its-own", [Bind(CNI, HOST_CNI)], body=lambda: mount("tmpfs", "/host", "tmpfs"))
    host.container("with-etc", [Bind("/etc", "/host/etc")])
    shutil.rmtree(f"{host.tree()}/etc/cni")
    host.patch()
    host.container("without", [Bind("/etc", "/host/etc")])
    host.container("following", [Bind("/", "/host", propagated=True)])


EXPECT = Expected(
    findings=(
        ("stale-mount", "unknown", "below-the-lost", "/etc/lost", "on the host: /etc/lost: No such file"),
        ("stale-mount", "noted", "below-the-lost", "/usr/lib/modules", "is no CNI configuration directory"),
        ("stale-mount", "unknown", "covered", CNI, "in the container: /host/etc/cni/net.d: No such file"),
        ("stale-mount", "noted", "with-etc", "/etc", "/etc is no CNI configuration directory"),
    ),
    refusals=(("host-path-missing", "covered", "the host has no /etc/cni/net.d now"),),
)

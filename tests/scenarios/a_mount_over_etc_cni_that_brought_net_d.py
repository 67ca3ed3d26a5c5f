# SPDX-License-Identifier: Apache-2.0
"""/etc/cni was empty when a container was given /etc, and a mount over it brought net.d later: the host has what
is missing in the container, and there is nothing to compare."""

from __future__ import annotations

import os
import shutil

from tests.scenarios.kit import CNI, Bind, Expected, Layout, ScenarioHost, mount

REPORTED = ("kubernetes/kubernetes#44713",)
LAYOUT = Layout.PLAIN


def build(host: ScenarioHost) -> None:
    shutil.rmtree(CNI)
    host.container("sees-too-little", [Bind("/etc", "/host/etc")])
    mount("tmpfs", "/etc/cni", "tmpfs")
    os.mkdir(CNI)


EXPECT = Expected(
    findings=(("stale-mount", "unknown", "sees-too-little", CNI, "in the container: /host/etc/cni/net.d: No such"),),
)

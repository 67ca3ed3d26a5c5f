# SPDX-License-Identifier: Apache-2.0
"""A container that was started after the patch and shows the old directory all the same, because whoever started
it sees another tree: a restart would bring it back like that, so it is an alarm."""

from __future__ import annotations

import os

from tests.scenarios.kit import CNI, HOST_CNI, OLD, Bind, Expected, ScenarioHost, bind, mount

REPORTED = ("containerd/containerd#11912",)
_MS_PRIVATE = 1 << 18


def build(host: ScenarioHost) -> None:
    os.makedirs("/tmp/aside")
    bind("/sysroot", "/tmp/aside")
    mount("none", "/tmp/aside", flags=_MS_PRIVATE)  # The patch must not reach it.
    host.patch()
    host.container(
        "kube-multus", [Bind(f"/tmp/aside{host.tree(OLD).removeprefix('/sysroot')}{CNI}", HOST_CNI, says=CNI)]
    )


EXPECT = Expected(
    findings=(("stale-mount", "owed", "kube-multus", CNI, "no longer reaches the host"),),
    refusals=(("started-after-switch", "kube-multus", "is younger than the host's"),),
)

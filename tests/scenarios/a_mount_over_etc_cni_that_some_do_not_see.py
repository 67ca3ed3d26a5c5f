# SPDX-License-Identifier: Apache-2.0
"""A tmpfs was mounted over /etc/cni. Who has /etc without propagation has the same /etc and does not see that:
what the host has not is there, and cannot be compared."""

from __future__ import annotations

from tests.scenarios.kit import CNI, Bind, Expected, Layout, ScenarioHost, mount

REPORTED = ("kubernetes/kubernetes#44713", "flatcar/Flatcar#1328")
LAYOUT = Layout.PLAIN


def build(host: ScenarioHost) -> None:
    host.container("sees-too-much", [Bind("/etc", "/host/etc")])
    mount("tmpfs", "/etc/cni", "tmpfs")


EXPECT = Expected(
    findings=(("stale-mount", "unknown", "sees-too-much", CNI, "on the host: /etc/cni/net.d: No such file"),),
)

# SPDX-License-Identifier: Apache-2.0
"""As Fedora CoreOS boots, `/etc` is a mount of its own already, and the patch's is stacked on it: three lines for
one point, of which the visible one is told by their parents."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, Layout, ScenarioHost

REPORTED = ("starlingx/update 62f537c",)
LAYOUT = Layout.READ_ONLY_SYSROOT


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.switch("c" * 64)


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

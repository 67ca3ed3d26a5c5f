# SPDX-License-Identifier: Apache-2.0
"""The new tree has no /etc/cni/net.d at all. A restarted container would make the runtime create an empty one:
nothing can be compared, and nothing is done."""

from __future__ import annotations

import shutil

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("kubernetes/kubernetes#128814",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    shutil.rmtree(f"{host.tree()}/etc/cni")
    host.patch()


EXPECT = Expected(
    findings=(("stale-mount", "unknown", "calico-node", CNI, "on the host: /etc/cni/net.d: No such file"),),
    refusals=(("host-path-missing", "calico-node", "the host has no /etc/cni/net.d now"),),
)

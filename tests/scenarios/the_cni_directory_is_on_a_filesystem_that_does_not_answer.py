# SPDX-License-Identifier: Apache-2.0
"""Somebody mounted a remote filesystem over /etc/cni/net.d, and its server is gone: whoever looks there hangs for
ever. It is not touched, and nothing is known."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost, silent_filesystem

REPORTED = ("kubernetes/kubernetes#31504",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    silent_filesystem(CNI)


EXPECT = Expected(
    findings=(("stale-mount", "unknown", "calico-node", CNI, "may not answer: not touched"),),
    status=3,
)

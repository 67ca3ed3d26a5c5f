# SPDX-License-Identifier: Apache-2.0
"""kubens as it is meant: kubelet and runtime in a mount namespace of their own that receives the host's mounts.
What the runtime would bind is what PID 1 has, and a restart cures."""

from __future__ import annotations

from tests.host.test_scan import runtime_apart
from tests.scenarios.kit import CNI, Expected, ScenarioHost

REPORTED = ("openshift/enhancements#593",)


def build(host: ScenarioHost) -> None:
    runtime_apart(host, follows=True)
    host.patch()


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),
        ("stale-mount", "noted", "calico-node", "/usr/lib/modules", "is no CNI configuration directory"),
    ),
    steps=("stop-container calico-node",),
)

# SPDX-License-Identifier: Apache-2.0
"""kubens: the runtime lives in a mount namespace of its own, which no longer receives the host's mounts. Each
container that it starts gets the old tree, so stopping one cures nothing."""

from __future__ import annotations

from tests.host.test_scan import runtime_apart
from tests.scenarios.kit import CNI, Expected, ScenarioHost

REPORTED = ("openshift/enhancements#593", "openshift/openshift-docs#51562", "containerd/containerd#11912")


def build(host: ScenarioHost) -> None:
    runtime_apart(host, follows=False)
    host.patch()


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "unknown", "calico-node", CNI, "restarting it cures nothing"),
        ("runtime-namespace", "unknown", "calico-node", "/usr/lib/modules", "restarting it cures nothing"),
    ),
    status=3,
)

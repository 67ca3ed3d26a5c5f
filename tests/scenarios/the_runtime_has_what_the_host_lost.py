# SPDX-License-Identifier: Apache-2.0
"""The runtime was left behind in a mount namespace of its own, and the host's new tree has no /etc/cni/net.d. The
container has what its runtime would give it; of the host nothing can be compared."""

from __future__ import annotations

import shutil

from tests.host.test_scan import runtime_apart
from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = ("containerd/containerd#11912", "kubernetes/kubernetes#128814")


def build(host: ScenarioHost) -> None:
    runtime_apart(host, follows=False)
    shutil.rmtree(f"{host.tree()}/etc/cni")
    host.patch(usr=False)


EXPECT = Expected(findings=(("split-tree", "wrong", "host", "/etc", "has stopped half-way"),))

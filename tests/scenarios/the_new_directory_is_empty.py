# SPDX-License-Identifier: Apache-2.0
"""The new tree has a CNI directory with nothing in it, before its writers come: what the runtime should load is not
known yet, and it goes on with what it has in memory."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.kit import CNI, Expected, ScenarioHost

REPORTED = ("containerd/containerd#6490", "cri-o/cri-o#4276")


def build(host: ScenarioHost) -> None:
    host.process("kubelet", unit="kubelet.service")
    host.process("containerd", unit="containerd.service")
    host.patch()
    Path(CNI, "10-calico.conflist").unlink()


EXPECT = Expected(
    findings=(
        ("runtime-watch-stale", "noted", "containerd.service", CNI, "there is no CNI configuration in /etc/cni/net.d"),
    ),
)

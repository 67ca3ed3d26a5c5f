# SPDX-License-Identifier: Apache-2.0
"""`Mode=observe`: all is found and said, and nothing is done."""

from __future__ import annotations

from ostreewatchd.model import Settings
from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("NVIDIA/gpu-operator#712 (restarts that nobody asked for)",)
SETTINGS = Settings(mode="observe")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("mode-observe", "calico-node", "would stop container"),),
)

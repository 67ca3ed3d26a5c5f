# SPDX-License-Identifier: Apache-2.0
"""Multus makes 00-multus.conf at each start, so that the new tree lacks it is no reason to keep the old container."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("k8snetworkplumbingwg/multus-cni#1387",)


def build(host: ScenarioHost) -> None:
    Path(f"{CNI}/00-multus.conf").write_text("{}")
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.patch()


EXPECT = Expected(
    findings=(("stale-mount", "owed", "kube-multus", CNI, "no longer reaches the host"),),
    steps=("stop-container kube-multus",),
)

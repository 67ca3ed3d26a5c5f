# SPDX-License-Identifier: Apache-2.0
"""Multus (thin) wrote a bound token once and never again. The mount is fine: nothing is found here."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = (
    "k8snetworkplumbingwg/multus-cni#852",
    "k8snetworkplumbingwg/multus-cni#1263",
    "Mellanox/network-operator#1363",
)


def build(host: ScenarioHost) -> None:
    host.old_token("kube-multus")
    host.patch()
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

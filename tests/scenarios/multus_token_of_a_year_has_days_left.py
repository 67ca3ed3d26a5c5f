# SPDX-License-Identifier: Apache-2.0
"""Of the token's year six days are left, and nobody has copied a new one since its first hour."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/ansible-playbooks 3f409902 (Launchpad 2090964)",)


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("multus", since=359 * 24 * HOUR, lasts=365 * 24 * HOUR, warns=3607, pod="kube-multus-x1")
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(("token-expiring", "wrong", "host", f"{CNI}/multus.d/multus.kubeconfig", "about to end"),),
)

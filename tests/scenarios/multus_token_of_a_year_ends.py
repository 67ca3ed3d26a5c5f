# SPDX-License-Identifier: Apache-2.0
"""The token was made for an hour and its end put off for a year, and nobody copies the new ones: it works until the
year is over. It is only noted, months before."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/ansible-playbooks 3f409902 (Launchpad 2090964)",)


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("multus", since=90 * 24 * HOUR, lasts=365 * 24 * HOUR, warns=3607, pod="kube-multus-x1")
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(("writer-silent", "noted", "host", f"{CNI}/multus.d/multus.kubeconfig", "should have been renewed by"),),
)

# SPDX-License-Identifier: Apache-2.0
"""Extended tokens are off and the watcher is disabled: an hour after each start it is over. Two minutes before that,
it is about to be."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = ("rancher/rke2#9313",)


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("multus", since=3607 - 120, lasts=3607, pod="kube-multus-x1")
    host.token("whereabouts", since=2 * HOUR, lasts=3607, pod="kube-multus-x1")
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(
        ("token-expiring", "wrong", "host", f"{CNI}/multus.d/multus.kubeconfig", "about to end"),
        ("token-expired", "wrong", "host", f"{CNI}/whereabouts.d/whereabouts.kubeconfig", "it has expired"),
    ),
)

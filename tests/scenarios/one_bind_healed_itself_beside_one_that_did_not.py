# SPDX-License-Identifier: Apache-2.0
"""Multus (thick) has the host's `/` with HostToContainer, which followed the patch, and /etc/cni/net.d without,
which did not: in one container one is fresh and the other stale."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/ansible-playbooks fd8f70fd", "kubernetes/kubernetes#44713")


def build(host: ScenarioHost) -> None:
    host.container("kube-multus", [Bind("/", "/hostroot", propagated=True), Bind(CNI, HOST_CNI)])
    host.patch()


EXPECT = Expected(
    findings=(("stale-mount", "owed", "kube-multus", CNI, "no longer reaches the host"),),
    steps=("stop-container kube-multus",),
)

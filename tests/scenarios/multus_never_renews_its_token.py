# SPDX-License-Identifier: Apache-2.0
"""Multus (thin) wrote a bound token once and never again, and its pod is still there. The mount is fine, so nothing is
restarted unasked. Another kubeconfig is of a token that is no service account's, and never ends; and one is of a
service account of old, whose secret has no end."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.credentials import kubeconfig, part
from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = (
    "k8snetworkplumbingwg/multus-cni#852",
    "k8snetworkplumbingwg/multus-cni#1263",
    "Mellanox/network-operator#1363",
)
OF_OLD = ".".join((part({"alg": "RS256"}), part({"sub": "system:serviceaccount:kube-system:x"}), "c2ln"))


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("multus", since=2 * HOUR, lasts=HOUR, pod="kube-multus-x1")
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    Path(CNI, "static.kubeconfig").write_text(kubeconfig("", "abcdef.0123456789abcdef"))
    Path(CNI, "of-old.kubeconfig").write_text(kubeconfig("", OF_OLD))


EXPECT = Expected(
    findings=(("token-expired", "wrong", "host", f"{CNI}/multus.d/multus.kubeconfig", "bound to pod kube-multus-x1"),),
)

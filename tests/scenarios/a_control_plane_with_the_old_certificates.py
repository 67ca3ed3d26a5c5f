# SPDX-License-Identifier: Apache-2.0
"""The API server's static pod holds /etc/kubernetes/pki of the old tree. What was renewed there since it never
sees, and it fails on the day on which the old ones end."""

from __future__ import annotations

from tests.scenarios.kit import NEW, Bind, Expected, ScenarioHost
from tests.scenarios.kit.certificates import NEW_CERTIFICATE, OLD_CERTIFICATE

REPORTED = ("kubernetes/kubeadm (a renewal reaches static pods with their restart)",)
PKI = "/etc/kubernetes/pki"


def build(host: ScenarioHost) -> None:
    host.write(f"{PKI}/apiserver.crt", OLD_CERTIFICATE)
    host.write(f"{host.tree(NEW)}{PKI}/apiserver.crt", NEW_CERTIFICATE)
    host.container("kube-apiserver", [Bind(PKI, PKI, writable=False)])
    host.patch()
    host.container("kube-scheduler", [Bind(PKI, PKI, writable=False)])


EXPECT = Expected(
    findings=(
        ("stale-certificates", "noted", "kube-apiserver", PKI, "apiserver.crt (apiserver) ends first, on 2026-12"),
    )
)

# SPDX-License-Identifier: Apache-2.0
"""The API server's static pod holds /etc/kubernetes/pki of the old tree, and the new tree has the same certificates:
nothing was renewed, and both ends are one."""

from __future__ import annotations

from tests.scenarios.kit import NEW, Bind, Expected, ScenarioHost
from tests.scenarios.kit.certificates import NEW_CERTIFICATE

REPORTED = ("kubernetes/kubeadm (a renewal reaches static pods with their restart)",)
PKI = "/etc/kubernetes/pki"


def build(host: ScenarioHost) -> None:
    for tree in ("", host.tree(NEW)):
        host.write(f"{tree}{PKI}/apiserver.crt", NEW_CERTIFICATE)
    host.container("kube-apiserver", [Bind(PKI, PKI, writable=False)])
    host.patch()


EXPECT = Expected(
    findings=(
        (
            "stale-certificates",
            "noted",
            "kube-apiserver",
            PKI,
            "as of the host's, apiserver.crt (apiserver) ends first,",
        ),
    )
)

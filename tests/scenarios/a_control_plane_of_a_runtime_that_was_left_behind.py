# SPDX-License-Identifier: Apache-2.0
"""The runtime was cut off from the host, and it is that, and no certificate, which has to be cured first:
restarted, the API server would hold the old ones again."""

from __future__ import annotations

from tests.scenarios.kit import NEW, PRIVATE, Bind, Expected, ScenarioHost
from tests.scenarios.kit.certificates import NEW_CERTIFICATE, OLD_CERTIFICATE

REPORTED = ("openshift/enhancements#593",)
PKI = "/etc/kubernetes/pki"


def start(host: ScenarioHost) -> None:
    host.container("kube-apiserver", [Bind(PKI, PKI, writable=False)])


def build(host: ScenarioHost) -> None:
    host.write(f"{PKI}/apiserver.crt", OLD_CERTIFICATE)
    host.write(f"{host.tree(NEW)}{PKI}/apiserver.crt", NEW_CERTIFICATE)
    host.process("containerd", propagation=PRIVATE, start=lambda: start(host))
    host.patch()


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "noted", "containerd", "/etc", "for the pods that it starts"),
        ("runtime-namespace", "unknown", "kube-apiserver", PKI, "the runtime (containerd) is in mount namespace"),
    )
)

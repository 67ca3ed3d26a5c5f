# SPDX-License-Identifier: Apache-2.0
"""The merge of /etc lost the certificates: the API server still holds the old ones, and the new tree has none that
a restarted one could read."""

from __future__ import annotations

from tests.scenarios.kit import NEW, Bind, Expected, ScenarioHost
from tests.scenarios.kit.certificates import OLD_CERTIFICATE

REPORTED = ("starlingx/update 68174dc (Launchpad 2126705)",)
PKI = "/etc/kubernetes/pki"


def build(host: ScenarioHost) -> None:
    host.write(f"{PKI}/apiserver.crt", OLD_CERTIFICATE)
    host.write(f"{host.tree(NEW)}{PKI}/README")
    host.container("kube-apiserver", [Bind(PKI, PKI, writable=False)])
    host.patch()


EXPECT = Expected(findings=(("stale-certificates", "noted", "kube-apiserver", PKI, "of the host's none can be read"),))

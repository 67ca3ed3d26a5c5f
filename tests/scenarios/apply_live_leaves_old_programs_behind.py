# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree apply-live (`ostree admin unlock --transient`) put an overlay on /usr. Binds of /usr and /lib/modules
stay below it, with the same inode numbers on another device; /etc/cni/net.d is what it was, and nothing is
restarted."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("openshift/sandboxed-containers-operator#1349", "coreos/rpm-ostree#3992", "coreos/rpm-ostree#1495")


def build(host: ScenarioHost) -> None:
    host.container("kata-deploy", [Bind("/usr", "/host/usr", writable=False), Bind(CNI, HOST_CNI)])
    host.container("calico-node", [Bind("/usr/lib/modules", "/lib/modules", writable=False), Bind(CNI, HOST_CNI)])
    host.overlay("/usr", name="usr-transient")


EXPECT = Expected(
    findings=(
        ("stale-mount", "noted", "kata-deploy", "/usr", "is no CNI configuration directory"),
        ("stale-mount", "noted", "calico-node", "/usr/lib/modules", "is no CNI configuration directory"),
    ),
)

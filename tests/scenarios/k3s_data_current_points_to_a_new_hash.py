# SPDX-License-Identifier: Apache-2.0
"""A k3s upgrade moved `data/current` to a new hash. Multus has the plugins' directory by way of the link and keeps
the old one: no tokens are written there, so that is noted."""

from __future__ import annotations

import os

from tests.scenarios.kit import Bind, Expected, Layout, ScenarioHost

REPORTED = ("k3s-io/k3s#327", "k8snetworkplumbingwg/multus-cni#927")
LAYOUT = Layout.PLAIN
RANCHER = "/var/lib/rancher/k3s"
PLUGINS = f"{RANCHER}/data/current/bin"
CNI_OF_K3S = f"{RANCHER}/agent/etc/cni/net.d"


def build(host: ScenarioHost) -> None:
    old, new = "1a2b" * 16, "3c4d" * 16
    for name in (old, new):
        os.makedirs(f"{RANCHER}/data/{name}/bin")
    os.makedirs(CNI_OF_K3S)
    host.bundles = "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io"
    host.container(
        "kube-multus",
        [Bind(f"{RANCHER}/data/{old}/bin", "/host/opt/cni/bin"), Bind(CNI_OF_K3S, "/host/etc/cni/net.d")],
    )
    os.symlink(new, f"{RANCHER}/data/current")


EXPECT = Expected(
    findings=(("stale-mount", "noted", "kube-multus", PLUGINS, "is no CNI configuration directory"),),
)

# SPDX-License-Identifier: Apache-2.0
"""k3s keeps its CNI configuration below /var, which deployments share and which is left out elsewhere. Somebody
moved that directory away and made it anew: Multus writes into the one that was moved."""

from __future__ import annotations

import os
from pathlib import Path

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import Bind, Expected, ScenarioHost, answered, remembered

REPORTED = ("k8snetworkplumbingwg/multus-cni#927", "k3s-io/k3s#327")
CNI_OF_K3S = "/var/lib/rancher/k3s/agent/etc/cni/net.d"


def build(host: ScenarioHost) -> None:
    os.makedirs(CNI_OF_K3S)
    host.bundles = "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io"
    host.container("kube-multus", [Bind(CNI_OF_K3S, "/host/etc/cni/net.d"), Bind("/var/lib", "/var/lib")])
    os.rename(CNI_OF_K3S, f"{CNI_OF_K3S}.old")
    os.mkdir(CNI_OF_K3S)
    Path(f"{CNI_OF_K3S}/10-flannel.conflist").touch()


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """No mount tells the order; the ledger knew the state before."""
    return remembered(answered(snapshot))


EXPECT = Expected(
    findings=(("stale-mount", "owed", "kube-multus", CNI_OF_K3S, "no longer reaches the host"),),
    steps=("stop-container kube-multus",),
)

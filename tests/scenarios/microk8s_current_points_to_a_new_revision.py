# SPDX-License-Identifier: Apache-2.0
"""A snap refresh moved the link `current` to a new revision's directory. calico-node was given
`current/args/cni-network`, which the runtime resolved: it still writes into the old revision's, also when that was
removed. The `common` directory of a snap is no revision."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import Bind, Expected, Layout, ScenarioHost, answered, remembered

REPORTED = ("canonical/microk8s#5583", "canonical/microk8s#4184", "projectcalico/calico#9295")
LAYOUT = Layout.PLAIN
DATA = "/var/snap/microk8s"
DIRECTORY = f"{DATA}/current/args/cni-network"
BUNDLES = f"{DATA}/common/run/containerd/io.containerd.runtime.v2.task/k8s.io"


def build(host: ScenarioHost) -> None:
    for revision in ("6900", "7000", "7100"):
        os.makedirs(f"{DATA}/{revision}/args/cni-network")
        Path(f"{DATA}/{revision}/args/cni-network/10-calico.conflist").write_text(revision)
    host.bundles = BUNDLES
    for name, revision in (("kube-multus", "6900"), ("calico-node", "7000"), ("whereabouts", "7100")):
        common = Bind(f"{DATA}/common", "/common")
        host.container(name, [Bind(f"{DATA}/{revision}/args/cni-network", "/host/etc/cni/net.d"), common])
    shutil.rmtree(f"{DATA}/6900")
    os.symlink("7100", f"{DATA}/current")


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """No mount tells the order; the ledger knew the state before."""
    return remembered(answered(snapshot))


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", DIRECTORY, "no longer reaches the host"),
        ("stale-mount", "owed", "kube-multus", DIRECTORY, "no longer reaches the host"),
    ),
    steps=("stop-container calico-node", "stop-container kube-multus"),
)

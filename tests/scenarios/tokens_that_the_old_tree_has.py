# SPDX-License-Identifier: Apache-2.0
"""Some hours after the patch: calico-node has renewed its token in the old tree, whereabouts has made its directory
there, and Multus is about to write its own. The host's copy of Calico's is late, for a reason that is
known. With the restart of those that are stale all is cured. Others are of a kind, or of somebody, that nobody
knows."""

from __future__ import annotations

import time
from pathlib import Path

from tests.fakes.credentials import kubeconfig, token
from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 23d2727 (Launchpad 2144903)", "projectcalico/calico#9428", "canonical/microk8s#5583")


def build(host: ScenarioHost) -> None:
    for at in (CNI, f"{host.tree()}{CNI}"):
        host.token("calico", since=14 * HOUR, at=at)
        host.token("multus", since=60, lasts=365 * 24 * HOUR, warns=3607, pod="kube-multus-x1", at=at)
    calico = host.container("calico-node", [Bind("/usr/lib/modules", "/first"), Bind(CNI, HOST_CNI)])
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.container("whereabouts", [Bind(CNI, HOST_CNI)])
    host.container("ovn4nfv", [Bind(CNI, HOST_CNI)])
    host.container("install-cni", [Bind(CNI, HOST_CNI)])
    host.container("reader", [Bind(CNI, HOST_CNI, writable=False)])
    host.patch()
    old = f"/proc/{calico.pid}/root{HOST_CNI}"
    host.token("calico", since=2 * HOUR, at=old)
    host.token("whereabouts", since=60, pod="kube-multus-x1", at=old, exp=None)
    Path(old, "multus.d/multus.kubeconfig").write_text("users: []")
    host.token("ovn4nfv", since=60)
    path = Path(old, "ovn4nfv-k8s.d/ovn4nfv-k8s.kubeconfig")
    path.parent.mkdir()
    path.write_text(kubeconfig("", "another"))
    host.token("istio-cni", since=60, at=old)
    Path(CNI, "ZZZ-istio-cni-kubeconfig").write_text(kubeconfig("", "one"))
    host.token("", since=60, at=old)
    Path(CNI, "third.kubeconfig").write_text(kubeconfig("", token(time.time())))


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),
        ("stale-mount", "owed", "kube-multus", CNI, "no longer reaches the host"),
        ("stale-mount", "owed", "ovn4nfv", CNI, "no longer reaches the host"),
        ("stale-mount", "owed", "install-cni", CNI, "no longer reaches the host"),
        ("stale-mount", "noted", "calico-node", "/usr/lib/modules", "no CNI configuration directory"),
        ("stale-mount", "noted", "reader", CNI, "it is mounted read-only"),
        ("token-diverged", "noted", "calico-node", f"{CNI}/calico-kubeconfig", "the host's was issued"),
        ("stale-mount", "owed", "whereabouts", CNI, "no longer reaches the host"),
        ("token-diverged", "noted", "whereabouts", f"{CNI}/whereabouts.d/whereabouts.kubeconfig", "host has none"),
    ),
    steps=(
        "stop-container calico-node",
        "stop-container kube-multus",
        "stop-container whereabouts",
        "stop-container install-cni",
        "stop-container ovn4nfv",
    ),
)

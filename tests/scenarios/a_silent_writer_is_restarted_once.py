# SPDX-License-Identifier: Apache-2.0
"""RestartSilentWriters=yes: Calico's watcher went quiet a week ago, and its token is over, so its container is
restarted. whereabouts was started since its own was due and has not renewed it: a restart brings nothing, and is none.
Multus has another directory than the host, and that is why; Istio's is as it should be."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Settings, Snapshot
from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost, answered

REPORTED = (
    "projectcalico/calico#8777",
    "projectcalico/calico#5712",
    "projectcalico/calico#7584",
    "projectcalico/calico#7208",
)
SETTINGS = Settings(restart_silent_writers=True)


def build(host: ScenarioHost) -> None:
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.patch()
    host.token("calico", since=7 * 24 * HOUR)
    host.token("whereabouts", since=3 * HOUR, lasts=3607)
    host.token("multus", since=3 * HOUR, lasts=3607)
    host.token("istio-cni", since=60)
    for name in ("calico-node", "whereabouts", "install-cni"):
        host.container(name, [Bind(CNI, HOST_CNI)])


def stand_ins(snapshot: Snapshot) -> Snapshot:
    """calico-node runs for a month."""
    old = tuple(
        msgspec.structs.replace(one, started_at=one.started_at - 30 * 24 * HOUR) if one.name == "calico-node" else one
        for one in snapshot.containers
    )
    return msgspec.structs.replace(answered(snapshot), containers=old)


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "kube-multus", CNI, "no longer reaches the host"),
        ("writer-stuck", "owed", "calico-node", f"{CNI}/calico-kubeconfig", "it has expired"),
        ("token-expired", "wrong", "host", f"{CNI}/calico-kubeconfig", "told Unauthorized"),
        ("token-expired", "wrong", "host", f"{CNI}/multus.d/multus.kubeconfig", "told Unauthorized"),
        ("token-expired", "wrong", "host", f"{CNI}/whereabouts.d/whereabouts.kubeconfig", "told Unauthorized"),
        ("writer-stuck", "noted", "whereabouts", f"{CNI}/whereabouts.d/whereabouts.kubeconfig", "was started since"),
    ),
    steps=("stop-container calico-node", "stop-container kube-multus"),
)

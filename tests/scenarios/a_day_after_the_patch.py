# SPDX-License-Identifier: Apache-2.0
"""A day after the patch nobody has done anything: calico-node renewed its token all the time, in the old tree, and the
host's copy is over. Now no pod starts; the restart of calico-node cures it."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 23d2727 (Launchpad 2144903)", "canonical/microk8s#5583", "projectcalico/calico#9295")


def build(host: ScenarioHost) -> None:
    for at in (CNI, f"{host.tree()}{CNI}"):
        host.token("calico", since=28 * HOUR, at=at)
    calico = host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.patch()
    host.token("calico", since=3 * HOUR, at=f"/proc/{calico.pid}/root{HOST_CNI}")


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),
        ("token-diverged", "noted", "calico-node", f"{CNI}/calico-kubeconfig", "does not reach the host"),
        ("token-expired", "wrong", "host", f"{CNI}/calico-kubeconfig", "told Unauthorized"),
    ),
    steps=("stop-container calico-node",),
)

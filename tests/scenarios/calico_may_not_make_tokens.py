# SPDX-License-Identifier: Apache-2.0
"""RBAC forbids calico-node to make tokens: it tries every few seconds, and the host's is 14 hours old where 12 is the
most. It works for ten more. A restart would change nothing of that, so nothing is restarted: it is noted. What else is
stale has nothing to do with it."""

from __future__ import annotations

import os

from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = (
    "projectcalico/calico#7584",
    "projectcalico/calico#8368",
    "projectcalico/calico#7220",
)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI, writable=False)], pod="calico-node-x0")
    host.patch()
    host.token("calico", since=14 * HOUR)
    os.mkdir("/etc/calico")
    host.container("calico-node", [Bind(CNI, HOST_CNI), Bind("/etc/calico", "/etc/calico")])
    os.rename("/etc/calico", "/etc/calico.old")
    os.mkdir("/etc/calico")


EXPECT = Expected(
    findings=(
        ("stale-mount", "noted", "calico-node", CNI, "it is mounted read-only"),
        ("stale-mount", "noted", "calico-node", "/etc/calico", "no CNI configuration directory"),
        ("writer-silent", "noted", "host", f"{CNI}/calico-kubeconfig", "should have been renewed by"),
    ),
)

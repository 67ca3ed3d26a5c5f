# SPDX-License-Identifier: Apache-2.0
"""A debugging or monitoring pod has the host's `/` without propagation. It holds the old tree, /etc/cni/net.d in
it, and pins its mounts; it writes no tokens, and nothing is due unasked."""

from __future__ import annotations

from tests.scenarios.kit import Bind, Expected, ScenarioHost

REPORTED = ("prometheus-operator/prometheus-operator#2578", "openebs/cstor-operators#140")


def build(host: ScenarioHost) -> None:
    host.container("node-exporter", [Bind("/", "/host/root", writable=False)])
    host.container("with-etc", [Bind("/etc", "/host/etc")])
    host.patch()


EXPECT = Expected(
    findings=(
        ("stale-mount", "noted", "node-exporter", "/usr", "/usr is no CNI configuration directory"),
        ("stale-mount", "noted", "node-exporter", "/etc", "seen by way of /"),
        ("stale-mount", "noted", "with-etc", "/etc", "/etc is no CNI configuration directory"),
    ),
)

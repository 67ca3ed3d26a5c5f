# SPDX-License-Identifier: Apache-2.0
"""The CNI configuration of an uninstalled DaemonSet was left on the node. No container has it: there is nothing to
restart."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.kit import CNI, Bind, Expected, ScenarioHost

REPORTED = ("istio/istio#57788", "istio/istio#58111")


def build(host: ScenarioHost) -> None:
    Path(f"{CNI}/ZZZ-istio-cni-kubeconfig").write_text("token: left-behind")
    Path(f"{host.tree()}{CNI}/ZZZ-istio-cni-kubeconfig").write_text("token: left-behind")
    host.container("coredns", [Bind("/var", "/data")])
    host.patch()


EXPECT = Expected()

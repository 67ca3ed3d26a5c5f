# SPDX-License-Identifier: Apache-2.0
"""The container follows the host, whose mounts reach it; its shim has lost them, and a new container of the pod
would be stale."""

from __future__ import annotations

from tests.scenarios.kit import CNI, NEW, OLD, PRIVATE, Bind, Expected, ScenarioHost, bind

REPORTED = ("containerd/containerd#11912",)


def start(host: ScenarioHost) -> None:
    """It has a copy of what the host has there, and its own view is put back to the old tree."""
    host.container("calico-node", [Bind(CNI, "/host" + CNI)])
    bind(host.tree(OLD) + "/etc", "/etc")


def build(host: ScenarioHost) -> None:
    host.process("containerd")
    host.switch(NEW)
    host.process("containerd-shim", propagation=PRIVATE, start=lambda: start(host))


EXPECT = Expected(findings=(("runtime-namespace", "wrong", "calico-node", CNI, "it is fresh, but the pod's shim"),))

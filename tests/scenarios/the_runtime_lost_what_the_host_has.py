# SPDX-License-Identifier: Apache-2.0
"""The runtime still sees the old tree, from which somebody removed what a container was given, while PID 1 has it
in the new one. What a restart would bring is nothing, or an empty directory."""

from __future__ import annotations

import os

from tests.scenarios.kit import NEW, OLD, PRIVATE, Bind, Expected, ScenarioHost

REPORTED = (
    "containerd/containerd#11912",
    "kubernetes/kubernetes#128814",
)


def build(host: ScenarioHost) -> None:
    for tree in ("", host.tree(NEW)):
        os.mkdir(f"{tree}/etc/given")
    host.process(
        "containerd-shim", propagation=PRIVATE, start=lambda: host.container("web", [Bind("/etc/given", "/given")])
    )
    host.switch(NEW)
    os.rmdir(f"{host.tree(OLD)}/etc/given")


EXPECT = Expected(findings=(("stale-mount", "unknown", "web", "/etc/given", "on the host: /etc/given: No such file"),))

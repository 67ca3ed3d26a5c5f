# SPDX-License-Identifier: Apache-2.0
"""One container has /etc as a whole, and in it, as mounts of their own, the CNI directory and a part of that which
it only reads. What lies below a stale directory is stale with it and not said again; what is owed is said wherever
it lies, and so is what is noted below that."""

from __future__ import annotations

import os

from tests.scenarios.kit import CNI, NEW, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/ansible-playbooks fd8f70fd",)
CONFIG = f"{CNI}/multus.d"


def build(host: ScenarioHost) -> None:
    for tree in ("", host.tree(NEW)):
        os.mkdir(f"{tree}{CONFIG}")
        os.mkdir(f"{tree}/etc/ssl")
    binds = [Bind("/etc", "/host/etc"), Bind(CNI, f"/host{CNI}"), Bind("/etc/ssl", "/host/etc/ssl", writable=False)]
    host.container("kube-multus", [*binds, Bind(CONFIG, f"/host{CONFIG}", writable=False)])
    host.container("thick", [Bind(CNI, f"/host{CNI}"), Bind(CONFIG, f"/host{CONFIG}", writable=False)])
    host.patch()


EXPECT = Expected(
    findings=(
        ("stale-mount", "noted", "kube-multus", "/etc", "/etc is no CNI configuration directory"),
        ("stale-mount", "owed", "kube-multus", CNI, "no longer reaches the host"),
        ("stale-mount", "owed", "thick", CNI, "no longer reaches the host"),
        ("stale-mount", "noted", "thick", CONFIG, "mounted read-only"),
    ),
    steps=("stop-container kube-multus", "stop-container thick"),
)

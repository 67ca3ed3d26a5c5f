# SPDX-License-Identifier: Apache-2.0
"""A single file was replaced by rename in the old tree, which the runtime still sees, while PID 1 has the new one:
a rename is the lesser part of what is wrong."""

from __future__ import annotations

import os

from tests.scenarios.kit import NEW, OLD, PRIVATE, Bind, Expected, ScenarioHost

REPORTED = ("containerd/containerd#11912",)


def start(host: ScenarioHost) -> None:
    host.container("reader", [Bind("/etc/motd", "/motd")])


def build(host: ScenarioHost) -> None:
    for tree in ("", host.tree(NEW)):
        host.write(f"{tree}/etc/motd", tree)
    host.process("containerd", propagation=PRIVATE, start=lambda: start(host))
    host.switch(NEW)
    host.write(f"{host.tree(OLD)}/etc/motd.new")
    os.rename(f"{host.tree(OLD)}/etc/motd.new", f"{host.tree(OLD)}/etc/motd")


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "noted", "containerd", "/etc", "for the pods that it starts"),
        ("runtime-namespace", "unknown", "reader", "/etc/motd", "the runtime (containerd) is in mount namespace"),
    )
)

# SPDX-License-Identifier: Apache-2.0
"""containerd lives in a mount namespace that missed the switch, and in the old tree /etc/cni/net.d is a link by now.
In the container that path is not followed, so what it shows is not known; that the runtime has another tree makes it
no more known."""

from __future__ import annotations

import os

from tests.scenarios.kit import CNI, PRIVATE, Bind, Expected, ScenarioHost

REPORTED = ("openshift/enhancements#593",)


def build(host: ScenarioHost) -> None:
    os.rename(CNI, f"{CNI}.real")
    os.symlink("net.d.real", CNI)
    host.process(
        "containerd",
        propagation=PRIVATE,
        unit="containerd.service",
        start=lambda: host.container("node-agent", [Bind("/etc", "/host/etc")]),
    )
    host.patch()


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "noted", "containerd.service", "/etc", "it uses that for the pods that it starts"),
        ("runtime-namespace", "unknown", "node-agent", "/etc", "the runtime (containerd) is in mount namespace"),
        ("stale-mount", "unknown", "node-agent", CNI, "Too many levels of symbolic links"),
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""Two in-service patches, one after the other. The host has the newest of three trees stacked on one point; one
container is of the first, one of the second, and one was started after both."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, NEW, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 62f537c",)

_FIRST = f"/sysroot/ostree/deploy/debian/deploy/{NEW}.0"


def build(host: ScenarioHost) -> None:
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])
    host.patch()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.switch("c" * 64)
    host.container("whereabouts", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", CNI, "shows deployment debian-bbbbbbbbbb.0, the host has debian-cccc"),
        ("stale-mount", "owed", "kube-multus", CNI, "shows deployment debian-aaaaaaaaaa.0, the host has debian-cccc"),
        # Measured on a node too: both mounts of the first patch are peers of what they were bound from.
        ("undeploy-danger", "wrong", "host", f"{_FIRST}/etc", "which is the live /etc, and remove what is in it"),
        ("undeploy-danger", "wrong", "host", f"{_FIRST}/usr", "which is the live /usr, and remove what is in it"),
    ),
    steps=("stop-container calico-node", "stop-container kube-multus"),
)

# SPDX-License-Identifier: Apache-2.0
"""The container was made by a conmon of the host and is fresh. CRI-O has been cut off since, and a new conmon
would be of its namespace: at its next start the container gets the old tree."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, PRIVATE, Bind, Expected, ScenarioHost

REPORTED = ("openshift/enhancements#593",)


def build(host: ScenarioHost) -> None:
    host.process("crio", propagation=PRIVATE, unit="crio.service")
    host.patch()
    host.process("conmon", start=lambda: host.container("calico-node", [Bind(CNI, HOST_CNI)]))


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "noted", "crio.service", "/etc", "for the pods that it starts"),
        ("runtime-namespace", "wrong", "calico-node", CNI, "it is fresh, but the runtime (crio)"),
    )
)

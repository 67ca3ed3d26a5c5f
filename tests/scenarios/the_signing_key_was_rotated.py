# SPDX-License-Identifier: Apache-2.0
"""The key of service account tokens was rotated: a token with its end in the future is refused. The mount is fine:
nothing is found here."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = (
    "projectcalico/calico#12595",
    "projectcalico/calico#12941",
)


def build(host: ScenarioHost) -> None:
    host.old_token("calico-node")
    host.patch()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

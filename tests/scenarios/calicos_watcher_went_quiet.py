# SPDX-License-Identifier: Apache-2.0
"""One node in hundreds: calico-node stopped to renew its token, which is expired, and the CNI answers
`Unauthorized`. The mount is fine and a restart for it would be wrong: nothing is found here."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = (
    "projectcalico/calico#8777",
    "projectcalico/calico#5712",
)


def build(host: ScenarioHost) -> None:
    host.old_token("calico-node")
    host.patch()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

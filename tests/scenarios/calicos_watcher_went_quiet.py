# SPDX-License-Identifier: Apache-2.0
"""One node in hundreds: calico-node stopped to renew its token, which is expired, and the CNI answers
`Unauthorized`. The mount is fine, so nothing is restarted unasked: it is said."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = (
    "projectcalico/calico#8777",
    "projectcalico/calico#5712",
)


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("calico", since=7 * 24 * HOUR)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(findings=(("token-expired", "wrong", "host", f"{CNI}/calico-kubeconfig", "told Unauthorized"),))

# SPDX-License-Identifier: Apache-2.0
"""The key of service account tokens was rotated: a token with its end in the future is refused. Only the API server
knows; its end and its age are as they should be, so nothing is found here, and nothing says that it is good."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, HOUR, Bind, Expected, ScenarioHost

REPORTED = (
    "projectcalico/calico#12595",
    "projectcalico/calico#12941",
)


def build(host: ScenarioHost) -> None:
    host.patch()
    host.token("calico", since=5 * HOUR, key="of-last-year")
    host.token("multus", since=60, lasts=365 * 24 * HOUR, warns=3607, pod="kube-multus-x1", key="of-this-year")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.container("kube-multus", [Bind(CNI, HOST_CNI)])


EXPECT = Expected()

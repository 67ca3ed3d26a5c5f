# SPDX-License-Identifier: Apache-2.0
"""Neither a bundle nor a log link tells whose container it is: without a pod and a name nobody can know whether it
was restarted before, so it is not."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("canonical/microk8s#4184",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)], bundle=False)
    host.patch()


EXPECT = Expected(
    findings=(("stale-mount", "owed", "nameless", CNI, "no longer reaches the host"),),
    refusals=(("owner-unknown", "nameless", "whose container it is"),),
    problems=("neither its bundle nor a log link says whose it is",),
)

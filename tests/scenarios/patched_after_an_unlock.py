# SPDX-License-Identifier: Apache-2.0
"""`ostree admin unlock` first, an in-service patch later: the container has the overlay's /usr, which tells no
deployment."""

from __future__ import annotations

from tests.scenarios.kit import Bind, Expected, ScenarioHost

REPORTED = ("ostreedev/ostree#2369",)


def build(host: ScenarioHost) -> None:
    host.overlay("/usr", name="usr-transient")
    host.container("tuned", [Bind("/usr", "/usr", writable=False)])
    host.patch()


EXPECT = Expected(findings=(("stale-mount", "noted", "tuned", "/usr", "it shows directory"),))

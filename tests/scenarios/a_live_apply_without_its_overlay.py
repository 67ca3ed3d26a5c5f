# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree says that another commit is live, and /usr is the booted one: the overlay was made where the host
does not see it."""

from __future__ import annotations

from tests.scenarios.kit import OLD, Expected, ScenarioHost

REPORTED = (
    "ostreedev/ostree#2653",
    "coreos/rpm-ostree#3007",
)
STAMP = f"/run/ostree/deployment-state/{OLD}.0/rpmostree-is-live.stamp"


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.write(STAMP)
    host.write("/ostree/repo/refs/heads/rpmostree/live-apply", "c" * 64)


EXPECT = Expected(findings=(("live-apply-contradiction", "wrong", "host", STAMP, "stamp-without-overlay"),))

# SPDX-License-Identifier: Apache-2.0
"""A kernel could not stack the overlay of a hotfix at boot: the origin says that the deployment has one, and /usr
is without what the hotfix changed."""

from __future__ import annotations

from tests.scenarios.kit import OLD, Expected, ScenarioHost

REPORTED = (
    "coreos/fedora-coreos-tracker#2087",
    "systemd/systemd#40318",
)


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.write(f"/ostree/deploy/debian/deploy/{OLD}.0.origin", "[origin]\nunlocked=hotfix\n")


EXPECT = Expected(findings=(("unlock-contradiction", "wrong", "host", "/usr", "hotfix-without-overlay"),))

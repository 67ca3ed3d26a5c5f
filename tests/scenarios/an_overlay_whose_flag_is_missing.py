# SPDX-License-Identifier: Apache-2.0
"""The overlay of an unlock is on /usr, and libostree does not say that it is unlocked: its flag follows a moment
later, or the overlay is somebody else's."""

from __future__ import annotations

from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = ("ostreedev/ostree#2369",)


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.unlock()


EXPECT = Expected(findings=(("unlock-contradiction", "unknown", "host", "/usr", "overlay-without-flag"),))

# SPDX-License-Identifier: Apache-2.0
"""`bootc usr-overlay` of the composefs backend writes no flag: its overlay alone is no contradiction."""

from __future__ import annotations

from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = ("bootc-dev/bootc#1620",)


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.overlay("/usr", source="transient")


EXPECT = Expected()

# SPDX-License-Identifier: Apache-2.0
"""A deployment is staged and locked, as `--lock-finalization` does: nothing is wrong, and nothing live has changed."""

from __future__ import annotations

from tests.scenarios.kit import NEW, Expected, ScenarioHost
from tests.unit.gvariant_writer import staged

REPORTED = ("coreos/rpm-ostree#4861",)


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.write("/run/ostree/staged-deployment", staged(NEW, locked=True))
    host.write("/run/ostree/staged-deployment-locked")


EXPECT = Expected()

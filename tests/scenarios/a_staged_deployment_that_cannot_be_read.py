# SPDX-License-Identifier: Apache-2.0
"""The record of a staged deployment is torn. Nothing is guessed from it: neither that something is staged, nor
that its lock is a leftover."""

from __future__ import annotations

from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = ("ostreedev/ostree#3025",)


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.write("/run/ostree/staged-deployment", b"torn")
    host.write("/run/ostree/staged-deployment-locked")


EXPECT = Expected(findings=(("unreadable-state", "unknown", "host", "/run/ostree/staged-deployment", "is damaged: "),))

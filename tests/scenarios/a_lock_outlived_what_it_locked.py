# SPDX-License-Identifier: Apache-2.0
"""The lock of a staged deployment outlived it: an older libostree takes it for the next one that is staged, and
that is never written. Another file that cannot be read is said, too."""

from __future__ import annotations

from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = (
    "ostreedev/ostree#3025",
    "ostreedev/ostree#1866",
    "ostreedev/ostree#3077",
    "ostreedev/ostree#2524",
)


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.write("/run/ostree/staged-deployment-locked")
    host.write("/ostree/repo/refs/heads/rpmostree/live-apply", "no commit")


EXPECT = Expected(
    findings=(
        ("staged-contradiction", "wrong", "host", "/run/ostree/staged-deployment-locked", "lock-without-staged"),
        ("unreadable-state", "unknown", "host", "/ostree/repo/refs/heads/rpmostree/live-apply", "it names no commit"),
    )
)

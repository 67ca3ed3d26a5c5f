# SPDX-License-Identifier: Apache-2.0
"""`/` is composefs, and /run/ostree-booted is empty, as older versions wrote it: which deployment is booted cannot
be told by stat(2). Something else that cannot be read is not to blame for it."""

from __future__ import annotations

from tests.scenarios.kit import Expected, Layout, ScenarioHost

REPORTED = ("ostreedev/ostree#3161",)
LAYOUT = Layout.COMPOSEFS


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.write("/ostree/repo/refs/heads/rpmostree/live-apply", "no commit")


EXPECT = Expected(
    findings=(
        ("unreadable-state", "unknown", "host", "/run/ostree-booted", "no deployment's directory is the one"),
        ("unreadable-state", "unknown", "host", "/ostree/repo/refs/heads/rpmostree/live-apply", "it names no commit"),
    )
)

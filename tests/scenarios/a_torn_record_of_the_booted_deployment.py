# SPDX-License-Identifier: Apache-2.0
"""/run/ostree-booted is torn on a composefs host: GLib would read it as an empty one. It is said once."""

from __future__ import annotations

from tests.scenarios.kit import Expected, Layout, ScenarioHost

REPORTED = ("ostreedev/ostree#3164",)
LAYOUT = Layout.COMPOSEFS


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted", b"torn")


EXPECT = Expected(findings=(("unreadable-state", "unknown", "host", "/run/ostree-booted", "is damaged: "),))

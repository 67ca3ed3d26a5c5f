# SPDX-License-Identifier: Apache-2.0
"""Single files on a host without OSTree: one keeps what is below a new overlay on /etc, the other was removed from
the host."""

from __future__ import annotations

import os
from pathlib import Path

from tests.scenarios.kit import Bind, Expected, Layout, ScenarioHost

REPORTED = ("flatcar/Flatcar#1328", "kubernetes/kubernetes#139535")
LAYOUT = Layout.PLAIN


def build(host: ScenarioHost) -> None:
    for name in ("kept", "removed"):
        Path(f"/etc/{name}").touch()
        host.container(name, [Bind(f"/etc/{name}", "/file", writable=False)])
    host.overlay("/etc", source="confext")
    os.unlink("/etc/removed")


EXPECT = Expected(
    findings=(
        ("stale-mount", "noted", "kept", "/etc/kept", "it shows directory"),
        ("stale-mount", "unknown", "removed", "/etc/removed", "on the host: /etc/removed: No such file"),
    ),
)

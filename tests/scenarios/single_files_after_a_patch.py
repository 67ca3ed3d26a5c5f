# SPDX-License-Identifier: Apache-2.0
"""Single files, given as files: after the patch one is of the old deployment, which is no replacement by rename;
one was started later and is fresh; one was removed from the host."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.kit import CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 23d2727 (Launchpad 2144903)", "kubernetes/kubernetes#139535")
FILE = f"{CNI}/10-calico.conflist"


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(FILE, "/conflist")])
    Path("/etc/motd").touch()
    host.container("reader", [Bind("/etc/motd", "/motd")])
    host.patch()
    host.container("late", [Bind(FILE, "/conflist")])


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", FILE, "shows deployment debian-aaaaaaaaaa.0"),
        ("stale-mount", "unknown", "reader", "/etc/motd", "on the host: /etc/motd: No such file"),
    ),
    steps=("stop-container calico-node",),
)

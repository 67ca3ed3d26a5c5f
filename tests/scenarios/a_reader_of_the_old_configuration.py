# SPDX-License-Identifier: Apache-2.0
"""A container reads the CNI configuration and writes nothing: it is stale, and nothing that it does is lost."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 23d2727 (Launchpad 2144903)",)


def build(host: ScenarioHost) -> None:
    host.container("reader", [Bind(CNI, HOST_CNI, writable=False)])
    host.container("modules", [Bind("/usr/lib/modules", "/lib/modules", writable=False)])
    host.patch()


EXPECT = Expected(
    findings=(
        ("stale-mount", "noted", "reader", CNI, "mounted read-only, so nothing that it writes is lost"),
        ("stale-mount", "noted", "modules", "/usr/lib/modules", "is no CNI configuration directory"),
    ),
)

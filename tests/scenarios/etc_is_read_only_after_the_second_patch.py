# SPDX-License-Identifier: Apache-2.0
"""Each further in-service patch stacked a read-only bind on /etc: the containers have the right tree, and neither
they nor the host can write to it."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, NEW, Bind, Expected, ScenarioHost, bind

REPORTED = ("starlingx/update 62f537c",)


def build(host: ScenarioHost) -> None:
    host.patch()
    bind(f"{host.tree(NEW)}/etc", "/etc", read_only=True)
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(findings=(("read-only-etc", "wrong", "host", "/etc", "the visible mount of /etc is read-only"),))

# SPDX-License-Identifier: Apache-2.0
"""A legacy 05-multus.conf was left on remote nodes, in the new tree alone. What is there too much keeps no restart
back: the stale container is cured, and the leftover is another matter."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/ansible-playbooks 47796ba9 (Launchpad 2163616)",)


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    Path(f"{host.tree()}{CNI}/05-multus.conf").write_text("{}")
    host.patch()


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    steps=("stop-container calico-node",),
)

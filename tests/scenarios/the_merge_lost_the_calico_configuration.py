# SPDX-License-Identifier: Apache-2.0
"""The merge of /etc lost 10-calico.conflist: the new tree has no CNI configuration. A restarted container does not
write it, for init containers do not run again, so nothing is stopped and somebody has to look."""

from __future__ import annotations

import os

from tests.scenarios.kit import CNI, HOST_CNI, Bind, Expected, ScenarioHost

REPORTED = ("starlingx/update 68174dc (Launchpad 2126705)", "starlingx/update 2702fbf", "kubernetes/kubernetes#128814")


def build(host: ScenarioHost) -> None:
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    os.unlink(f"{host.tree()}{CNI}/10-calico.conflist")
    host.patch()


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),
        ("cni-config-missing", "wrong", "host", f"{CNI}/10-calico.conflist", "the host has it no more"),
    ),
    refusals=(("cni-configuration-missing", "calico-node", "lacks 10-calico.conflist"),),
)

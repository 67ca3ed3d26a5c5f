# SPDX-License-Identifier: Apache-2.0
"""whereabouts keeps its kubeconfig in whereabouts.d below the CNI directory. A container that has just that
directory is stale like the others after the patch; one whose directory was only made anew, below the same CNI
directory, is not cured unasked."""

from __future__ import annotations

import os

from tests.scenarios.kit import CNI, NEW, Bind, Expected, ScenarioHost

REPORTED = ("k8snetworkplumbingwg/whereabouts#459", "k8snetworkplumbingwg/whereabouts#577")
DIRECTORY = f"{CNI}/whereabouts.d"


def build(host: ScenarioHost) -> None:
    for tree in ("", host.tree(NEW)):
        os.mkdir(f"{tree}{DIRECTORY}")
    host.container("whereabouts", [Bind(DIRECTORY, "/host/whereabouts.d")])
    host.patch()
    host.container("replaced", [Bind(DIRECTORY, "/host/whereabouts.d")])
    os.rename(DIRECTORY, f"{DIRECTORY}.old")
    os.mkdir(DIRECTORY)


EXPECT = Expected(
    findings=(
        ("stale-mount", "owed", "whereabouts", DIRECTORY, "no longer reaches the host"),
        ("stale-mount", "noted", "replaced", DIRECTORY, "it was replaced in place"),
    ),
    steps=("stop-container whereabouts",),
)

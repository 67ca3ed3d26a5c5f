# SPDX-License-Identifier: Apache-2.0
"""A pod of Kata on a host that was not switched: there is nothing that it could have missed."""

from __future__ import annotations

from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = ("kata-containers/kata-containers#12761 (pods of kata on such a host)",)
SANDBOX = "5" * 64


def build(host: ScenarioHost) -> None:
    host.process("containerd-shim-kata-v2", "/usr/bin/containerd-shim-kata-v2", "-namespace", "k8s.io", "-id", SANDBOX)
    host.write_bundle(SANDBOX, "web", [], **{"container-type": "sandbox"})


EXPECT = Expected()

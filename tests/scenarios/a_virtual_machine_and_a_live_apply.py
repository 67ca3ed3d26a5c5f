# SPDX-License-Identifier: Apache-2.0
"""A pod of Kata on a host whose /usr got an overlay: the same."""

from __future__ import annotations

from tests.scenarios.kit import Expected, ScenarioHost

REPORTED = ("kata-containers/kata-containers#12761 (pods of kata on such a host)",)
SANDBOX = "5" * 64


def build(host: ScenarioHost) -> None:
    host.process("containerd-shim-kata-v2", "/usr/bin/containerd-shim-kata-v2", "-namespace", "k8s.io", "-id", SANDBOX)
    host.write_bundle(SANDBOX, "web", [], **{"container-type": "sandbox"})
    host.unlock()


EXPECT = Expected(
    findings=(("vm-sandbox", "unknown", "nameless", "/", "is a virtual machine (containerd-shim-kata-v2)"),)
)

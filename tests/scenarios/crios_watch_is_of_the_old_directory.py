# SPDX-License-Identifier: Apache-2.0
"""CRI-O does not tell which networks it has loaded: that its watch is of the old directory is told, and that what it
has loaded is not known. A file that was cut off in the writing is no reason for anything."""

from __future__ import annotations

from pathlib import Path

from tests.scenarios.kit import CNI, Expected, ScenarioHost

REPORTED = ("cri-o/ocicni#42", "cri-o/cri-o#4276")


def build(host: ScenarioHost) -> None:
    host.process("kubelet", unit="kubelet.service")
    host.process("crio", unit="crio.service")
    host.patch()
    Path(CNI, "00-multus.conf").write_text('{"cniVersion": "0.3.1", "name": "multus-cni-ne')


EXPECT = Expected(
    findings=(
        ("runtime-watch-stale", "noted", "crio.service", CNI, "not known: 00-multus.conf: it is no JSON: cut off"),
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""CRI-O, beside a containerd that is there for Docker and makes no pods: after a patch CRI-O's watch is of the old
directory. Which networks it has loaded it does not tell, so nothing is due, and the watch is told. Of the other one it
is no matter what it watches."""

from __future__ import annotations

import msgspec

from ostreewatchd.model import Snapshot
from tests.scenarios.kit import CNI, Expected, ScenarioHost, answered

REPORTED = ("cri-o/ocicni#42", "cri-o/cri-o#4276")


def build(host: ScenarioHost) -> None:
    host.process("kubelet", unit="kubelet.service")
    host.process("crio")
    host.process("containerd", unit="containerd.service")
    host.patch()
    host.network("ovn-kubernetes", "05-ovn-kubernetes.conf")


def stand_ins(snapshot: Snapshot) -> Snapshot:
    asked = answered(snapshot)
    assert asked.runtime is not None
    return msgspec.structs.replace(asked, runtime=msgspec.structs.replace(asked.runtime, socket="/run/crio/crio.sock"))


EXPECT = Expected(
    findings=(("runtime-watch-stale", "noted", "crio", CNI, "crio does not tell what it has loaded"),),
)

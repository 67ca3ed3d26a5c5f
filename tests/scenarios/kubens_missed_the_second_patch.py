# SPDX-License-Identifier: Apache-2.0
"""kubens followed the first patch and was cut off before the second. A container of before shows the first tree,
the runtime would bind the second, PID 1 has the third: a restart would not bring it to what the host has."""

from __future__ import annotations

import os
import signal

from tests.scenarios.kit import CNI, HOST_CNI, NEW, Bind, Expected, ScenarioHost, mount, unshare_mounts

REPORTED = ("openshift/enhancements#593", "containerd/containerd#11912")
_FIRST = f"/sysroot/ostree/deploy/debian/deploy/{NEW}.0"
_MS_REC, _MS_SLAVE, _MS_PRIVATE = 0x4000, 1 << 19, 1 << 18


def build(host: ScenarioHost) -> None:
    (ours, tell), (heard, ask) = os.pipe(), os.pipe()
    if os.fork() == 0:
        unshare_mounts()
        mount("none", "/", flags=_MS_REC | _MS_SLAVE)
        host.container("calico-node", [Bind(CNI, HOST_CNI)])
        os.write(tell, b"x")
        os.read(heard, 1)
        mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
        os.write(tell, b"x")
        while True:
            signal.pause()
    os.read(ours, 1)
    host.patch()
    os.write(ask, b"x")
    os.read(ours, 1)
    host.switch("c" * 64)


EXPECT = Expected(
    findings=(
        ("runtime-namespace", "unknown", "calico-node", CNI, "restarting it cures nothing"),
        ("undeploy-danger", "wrong", "host", f"{_FIRST}/etc", "which is the live /etc"),
        ("undeploy-danger", "wrong", "host", f"{_FIRST}/usr", "which is the live /usr"),
    ),
    status=3,
)

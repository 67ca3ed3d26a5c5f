# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree applied a commit to the live /usr: overlay, flag, stamp and reference agree, and nothing is wrong."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, OLD, Bind, Expected, ScenarioHost

REPORTED = (
    "openshift/sandboxed-containers-operator#1349",
    "openshift/sandboxed-containers-operator#2312",
)


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.container("kata-deploy", [Bind(CNI, HOST_CNI)])
    host.unlock()
    host.write(f"/run/ostree/deployment-state/{OLD}.0/unlocked-development")
    host.write(f"/run/ostree/deployment-state/{OLD}.0/rpmostree-is-live.stamp")
    host.write("/ostree/repo/refs/heads/rpmostree/live-apply", "c" * 64)


EXPECT = Expected()

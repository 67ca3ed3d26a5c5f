# SPDX-License-Identifier: Apache-2.0
"""rpm-ostree is applying a commit to the live /usr. That is no contradiction yet, and what is stale waits for its
end; a flag of a patch that is older says nothing about it."""

from __future__ import annotations

import os
import time

from tests.scenarios.kit import CNI, HOST_CNI, OLD, Bind, Expected, ScenarioHost

REPORTED = ("openshift/sandboxed-containers-operator#1349",)


def build(host: ScenarioHost) -> None:
    host.write("/run/ostree-booted")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.overlay(CNI)
    host.unlock()
    host.write(f"/run/ostree/deployment-state/{OLD}.0/unlocked-development")
    host.write(f"/run/ostree/deployment-state/{OLD}.0/rpmostree-is-live.stamp")
    host.write("/run/software_run_post_install")
    hour_ago = time.time() - 3600
    os.utime("/run/software_run_post_install", (hour_ago, hour_ago))
    host.write("/ostree/repo/refs/heads/rpmostree/live-apply-inprogress", "c" * 64)


EXPECT = Expected(
    findings=(("stale-mount", "owed", "calico-node", CNI, "no longer reaches the host"),),
    refusals=(("switch-in-progress", "", "live-apply-inprogress"),),
)

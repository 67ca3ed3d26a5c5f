# SPDX-License-Identifier: Apache-2.0
"""An in-service patch first, `ostree admin unlock` later: the overlay's lower directory is the booted deployment's
/usr, so the /usr of the patch is gone, while /etc is still the patch's."""

from __future__ import annotations

import os

from tests.scenarios.kit import CNI, HOST_CNI, NEW, OLD, Bind, Expected, ScenarioHost

REPORTED = ("ostreedev/ostree#2369", "starlingx/update 83fb74a (Launchpad 1999447)")


def build(host: ScenarioHost) -> None:
    host.patch()
    host.container("calico-node", [Bind(CNI, HOST_CNI)])
    host.container("tuned", [Bind("/usr", "/usr", writable=False)])
    os.chdir(host.tree(OLD))
    host.unlock()
    os.chdir("/")
    host.write(f"/run/ostree/deployment-state/{OLD}.0/unlocked-development")


EXPECT = Expected(
    findings=(
        ("split-tree", "wrong", "host", "/etc", "the overlay of an unlock shows the booted deployment's /usr"),
        ("stale-mount", "noted", "tuned", "/usr", "it shows directory"),
        ("undeploy-danger", "wrong", "host", f"/sysroot/ostree/deploy/debian/deploy/{NEW}.0/usr", "the live /usr"),
    )
)

# SPDX-License-Identifier: Apache-2.0
"""A second in-service patch bound the new /etc into the directory of the first one, as the first did into the
booted one's. `ostree admin undeploy` of that would go down into the live /etc and remove what is in it; below a
read-only mount it cannot."""

from __future__ import annotations

from tests.scenarios.kit import CNI, HOST_CNI, NEW, Bind, Expected, ScenarioHost, bind

REPORTED = ("starlingx/update 62f537c",)


def build(host: ScenarioHost) -> None:
    host.patch()
    host.switch("c" * 64)
    bind(f"{host.tree('c' * 64)}/usr", f"{host.tree(NEW)}/usr", read_only=True)
    bind(f"{host.tree('c' * 64)}/etc", f"{host.tree(NEW)}/etc")
    host.container("calico-node", [Bind(CNI, HOST_CNI)])


EXPECT = Expected(
    findings=(
        ("undeploy-danger", "wrong", "host", f"/sysroot/ostree/deploy/debian/deploy/{NEW}.0/etc", "the live /etc"),
    )
)

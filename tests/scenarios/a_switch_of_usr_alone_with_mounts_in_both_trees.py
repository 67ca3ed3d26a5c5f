# SPDX-License-Identifier: Apache-2.0
"""/usr is of one deployment and /etc of another, and each is mounted once more in its own directory: to remove
what is live empties it with or without such a mount, so no danger more is said."""

from __future__ import annotations

from tests.scenarios.kit import NEW, Expected, ScenarioHost, bind, mount

REPORTED = ("starlingx/update 8422b68 (Launchpad 1999262)",)


def build(host: ScenarioHost) -> None:
    # Private: nothing is mounted a second time in a peer.
    mount("none", "/sysroot", flags=1 << 18)
    for tree, name in ((NEW, "usr"), ("c" * 64, "etc")):
        host.switch(tree, usr=name == "usr", etc=name == "etc")
        bind(f"{host.tree(tree)}/{name}", f"{host.tree(tree)}/{name}")


EXPECT = Expected(findings=(("split-tree", "wrong", "host", "/etc", "has stopped half-way"),))

# SPDX-License-Identifier: Apache-2.0
"""The live /usr or /etc is a directory that was removed: its deployment was undeployed under the running host.

libostree refuses to undeploy the booted deployment alone, and knows nothing of what an in-service patch has mounted.

Source: ostree-sysroot-cleanup.c; proc_pid_mountinfo(5) (`//deleted`, which no path can have in its own name);
starlingx/update software_agent.py (deploys with --retain --no-prune, so that it does not happen)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Finding, Snapshot

rule = HostRule("removed-live-tree")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each of the two trees by the root of its visible mount."""
    for path, line in (("/usr", snapshot.live.usr_mount), ("/etc", snapshot.live.etc_mount)):
        if (line.split(" ") + [""] * 4)[3].endswith("//deleted"):
            yield rule.wrong(
                path,
                because=f"undeployed: the directory that is the live {path} was removed from its filesystem: what it"
                " had is gone, and nothing can be created in it",
                remedy="reboot into a deployment that is there (`ostree admin status`)",
                evidence=(line,),
            )

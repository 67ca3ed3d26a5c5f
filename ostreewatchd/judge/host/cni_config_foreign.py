# SPDX-License-Identifier: Apache-2.0
"""The host's CNI directory has configuration that the tree before had not: it came with the new tree, and no plugin on
this node wrote it. The runtime uses the first by name.

Source: starlingx/ansible-playbooks 47796ba9 (Launchpad 2163616: a 05-multus.conf of earlier days, and recursion);
libcni (ConfFiles are taken in the order of their names)."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

from ostreewatchd.judge.host.cni_config_missing import before_and_now
from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Finding, Snapshot

rule = HostRule("cni-config-foreign")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each name, once, less what its writer makes anew when it starts."""
    for reference, before in before_and_now(snapshot):
        names = reference.sight.names
        if not before:
            continue  # Nobody holds another one, or none that can be listed: nothing tells what there was.
        for name in names:
            if name not in before and not any(fnmatch.fnmatchcase(name, pattern) for pattern in snapshot.self_written):
                place = ", and the runtime takes it before all others" if name == names[0] else ""
                yield rule.wrong(
                    f"{reference.host_path}/{name}",
                    because=f"the tree before had no such CNI configuration{place}",
                    remedy="if nothing on this node is to use it, remove it, and restart nothing for it",
                )

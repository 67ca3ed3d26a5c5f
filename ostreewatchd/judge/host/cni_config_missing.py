# SPDX-License-Identifier: Apache-2.0
"""The host's CNI directory lacks configuration that the tree before had, as a container shows that still holds it.
Pods may start without that plugin, and without any error.

What is made by an init container no restart of a container brings back, for init containers do not run again; a new
pod does, as long as the host's credential still works.

Source: starlingx/update 68174dc (Launchpad 2126705: a merge of /etc that loses files), 2702fbf;
k8snetworkplumbingwg/multus-cni#1361 (pods without their interfaces)."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.model import Bind, Finding, Reference, Snapshot

rule = HostRule("cni-config-missing")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each name, once, less what its writer makes anew when it starts."""
    for reference, before in before_and_now(snapshot):
        for name in sorted(before - set(reference.sight.names)):
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in snapshot.self_written):
                yield rule.wrong(
                    f"{reference.host_path}/{name}",
                    because="the tree before had this CNI configuration, and the host has it no more",
                    remedy="if it was not removed on purpose, bring it back from the tree before, or delete the pod"
                    " whose init container writes it (kubectl delete pod), while the host's token still works",
                )


def before_and_now(snapshot: Snapshot) -> Iterator[tuple[Reference, set[str]]]:
    """Each CNI directory of the host's, with the configuration that those have who hold another one."""
    for directory in snapshot.cni_directories:
        reference = snapshot.reference(directory, snapshot.init_mount_namespace)
        if reference is None or reference.sight.identity is None:
            continue
        binds = [bind for one in snapshot.containers for bind in one.binds if _holds_other(bind, reference)]
        yield reference, {name for bind in binds for name in bind.sight.names}


def _holds_other(bind: Bind, reference: Reference) -> bool:
    return bind.host_path == reference.host_path and bind.sight.identity != reference.sight.identity

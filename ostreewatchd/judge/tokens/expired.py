# SPDX-License-Identifier: Apache-2.0
"""The credential that the host has for a CNI plugin is over: no pod starts on this node. Where the mount is fine its
writer has failed, and a restart that nobody asked for could fail just as well.

A file that cannot be read is unknown: it may be half written (look again), or nobody's.

Source: projectcalico/calico#8777, #5712; k8snetworkplumbingwg/multus-cni#852, #1263; k8snetworkplumbingwg/whereabouts
#459; rancher/rke2#9313."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.judge.tokens.state import state_of
from ostreewatchd.judge.tokens.writers import dates, remedy
from ostreewatchd.model import Finding, Snapshot

rule = HostRule("token-expired")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each of the host's."""
    for one in snapshot.credentials:
        state = state_of(snapshot, one)
        if state == "expired":
            because = f"it has expired ({dates(one)}): whoever uses it is told Unauthorized"
            yield rule.wrong(one.path, because=because, remedy=remedy(snapshot, one))
        elif state == "unreadable":
            because = f"when it ends is not known: it {one.problem}"
            yield rule.not_known(one.path, because=because, remedy="none: look again, it may be half written")

# SPDX-License-Identifier: Apache-2.0
"""The token that the host has for a CNI plugin is bound to a pod that is not on this node any more. An API server
refuses it, whatever its end is.

Source: kubernetes pkg/serviceaccount/claims.go; projectcalico/calico#4857; aws/amazon-vpc-cni-k8s#1868;
spidernet-io/spiderpool#2182; istio/istio#57788 (left behind by what was uninstalled)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.host.rule import HostRule
from ostreewatchd.judge.tokens.state import state_of
from ostreewatchd.judge.tokens.writers import dates, remedy
from ostreewatchd.model import Finding, Snapshot

rule = HostRule("token-orphaned")


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each of the host's."""
    for one in snapshot.credentials:
        if state_of(snapshot, one) == "orphaned":
            because = f"its pod is not on this node any more ({dates(one)}): whoever uses it is told Unauthorized"
            yield rule.wrong(one.path, because=because, remedy=remedy(snapshot, one))

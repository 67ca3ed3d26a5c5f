# SPDX-License-Identifier: Apache-2.0
"""A pod runs in a virtual machine: what is mounted there, the host's kernel does not show, so after a switch nobody
can tell from here whether it still has the old tree.

Source: kata-containers docs/design/architecture (the containers' processes and mounts are the guest's; a hostPath is
shared by virtiofs, from a bind that was made when the container was started)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ostreewatchd.judge.rule import Cure, Rule
from ostreewatchd.model import Finding, Snapshot, Subject

rule = Rule("vm-sandbox", cure=Cure.NEW_POD)


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each such pod, on a host whose live tree is not the one that it booted."""
    if not snapshot.live.is_switched:
        return
    for sandbox in snapshot.vm_sandboxes:
        yield Finding(
            rule=rule.name,
            verdict="unknown",
            owed=False,
            subject=Subject(namespace=sandbox.pod.namespace, pod=sandbox.pod.name, pod_uid=sandbox.pod.uid),
            path="/",
            reason=f"sandbox {sandbox.sandbox_id[:12]} is a virtual machine ({sandbox.shim}): its mounts are the"
            " guest's and cannot be looked at from the host",
            remedy="on request, where the pod has directories of the host, by who may delete pods there:"
            f" `kubectl delete pod --namespace {shlex.quote(sandbox.pod.namespace)} {shlex.quote(sandbox.pod.name)}`,"
            " so that its controller makes it anew; ostreewatchd does not do it",
        )

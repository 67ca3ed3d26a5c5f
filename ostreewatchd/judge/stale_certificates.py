# SPDX-License-Identifier: Apache-2.0
"""A control-plane pod still holds the certificates of the tree that it was started on: it goes on with them until they
end, whatever was renewed on the host.

Source: kubeadm (certificates are renewed in /etc/kubernetes/pki, and static pods have to be restarted to use them);
kubernetes.io, certificate management with kubeadm."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.rule import Cure, Rule
from ostreewatchd.judge.runtime_namespace import differs
from ostreewatchd.model import Bind, Finding, Reference, Sight, Snapshot, day_of

rule = Rule("stale-certificates", cure=Cure.RESTART_CONTAINER)


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each bind of a directory of certificates that is not the host's, with the first end of each side's."""
    for container in snapshot.containers:
        for bind in container.binds:
            init = snapshot.reference(bind.host_path, snapshot.init_mount_namespace)
            if init is not None and holds_old(bind, init) and differs(snapshot, container, bind) is None:
                mine, hosts = _first(bind.sight), _first(init.sight)
                because = f"noted only: of the certificates that it holds {mine}, and of the host's {hosts}"
                if mine == hosts:
                    because = f"noted only: of the certificates that it holds, as of the host's, {mine}, on both sides"
                yield rule.stale(container, bind, expected=init, owed=False, because=because)


def holds_old(bind: Bind, reference: Reference) -> bool:
    """Another directory than the host's, which has certificates."""
    mine, theirs = bind.sight, reference.sight
    return bool(mine.certificates) and theirs.identity is not None and mine.identity != theirs.identity


def _first(sight: Sight) -> str:
    if not sight.certificates:
        return "none can be read"
    first = min(sight.certificates, key=lambda one: (one.ends_at, one.name))
    return f"{first.name} ({first.subject}) ends first, on {day_of(first.ends_at)}"

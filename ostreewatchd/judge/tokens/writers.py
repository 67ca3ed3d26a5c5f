# SPDX-License-Identifier: Apache-2.0
"""Who on this node writes a credential, and what a person can do so that it is written anew."""

from __future__ import annotations

from ostreewatchd.judge.rule import by_hand
from ostreewatchd.model import Bind, Container, Credential, Snapshot, moment_of
from ostreewatchd.platforms.writers import WRITERS


def names_of(one: Credential) -> frozenset[str]:
    """The names of the containers that write it; none where its writer is not known."""
    return frozenset(name for writer in WRITERS if writer.name == one.writer for name in writer.containers)


def writers(snapshot: Snapshot, one: Credential) -> list[tuple[Container, Bind]]:
    """The containers that write it, by their names, each with the bind through which it does."""
    names = names_of(one)
    return [
        (container, bind)
        for container in snapshot.containers
        for bind in container.binds
        if container.name in names and bind.writable and one.path.startswith(f"{bind.host_path}/")
    ]


def holds_another(snapshot: Snapshot, bind: Bind) -> bool:
    """Whether what is written through the bind does not reach the host."""
    reference = snapshot.reference(bind.host_path, snapshot.init_mount_namespace)
    return reference is not None and reference.sight.identity != bind.sight.identity


def remedy(snapshot: Snapshot, one: Credential) -> str:
    """What makes it anew. A container's stop keeps the pod, and with it the token that is bound to it; a pod's
    deletion would end that. Source: kubernetes pkg/serviceaccount/claims.go."""
    found = writers(snapshot, one)
    if not found:
        return (
            "none unasked, for no container on this node writes it: see who did; if that was uninstalled, remove the"
            " file and the configuration that names it"
        )
    container, bind = found[0]
    if holds_another(snapshot, bind):
        return f"with the restart of {container.name}, which has another directory there: see its own finding"
    return f"{by_hand(container)}. Its log tells why it did not renew it. Do not delete its pod for it"


def dates(one: Credential) -> str:
    """Of when it is, and whose."""
    text = f"issued {moment_of(one.issued_at)}" if one.issued_at is not None else "of unknown age"
    text += f", ends {moment_of(one.expires_at)}" if one.expires_at is not None else ", without an end"
    return text + (f", bound to pod {one.pod}" if one.pod else "")

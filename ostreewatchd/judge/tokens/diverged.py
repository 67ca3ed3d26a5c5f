# SPDX-License-Identifier: Apache-2.0
"""A container has renewed a credential in a directory that is not the host's: the host's copy stays as it was until it
ends. It is the outage of tomorrow; what makes it is a stale mount, whose restart cures both.

Source: starlingx/update 23d2727 (Launchpad 2144903); projectcalico/calico#9428."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ostreewatchd.judge.rule import Cure, Rule, subject_of
from ostreewatchd.judge.tokens.writers import dates, names_of
from ostreewatchd.model import Container, Credential, Finding, Identity, Seen, Snapshot

rule = Rule("token-diverged", cure=Cure.RESTART_CONTAINER)


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each that its writer has to itself, and that is younger than the host's. Of one whose writer is not known
    nobody knows who renews it: that the mount is stale is said all the same."""
    hosts = {one.path: one for one in snapshot.credentials if not one.container_id}
    for container in snapshot.containers:
        for mine in snapshot.credentials:
            if mine.container_id == container.id and container.name in names_of(mine):
                said = _younger(mine, hosts.get(mine.path))
                if said:
                    yield _finding(container, mine, hosts.get(mine.path), said)


def _younger(mine: Credential, theirs: Optional[Credential]) -> str:
    """What the host has instead; empty if that is as young, or if one of them cannot be told."""
    if mine.issued_at is None:
        return ""
    if theirs is None:
        return "the host has none there"
    if theirs.issued_at is None or theirs.issued_at >= mine.issued_at:
        return ""
    return f"the host's was {dates(theirs)}"


def _finding(container: Container, mine: Credential, theirs: Optional[Credential], said: str) -> Finding:
    places = [
        bind.path + mine.path[len(bind.host_path) :]
        for bind in container.binds
        if mine.path.startswith(f"{bind.host_path}/")
    ]
    return Finding(
        rule=rule.name,
        verdict="stale",
        owed=False,
        subject=subject_of(container),
        path=mine.path,
        inside="".join(places[:1]),
        expected=_seen(theirs.identity if theirs is not None else None),
        actual=_seen(mine.identity),
        reason=f"noted only: what it wrote there, {dates(mine)}, does not reach the host: {said}",
        remedy="with the restart of the container, which its stale mount calls for: it writes it anew when it starts",
    )


def _seen(identity: Optional[Identity]) -> Optional[Seen]:
    return Seen(dev=identity.dev, ino=identity.ino, deployment="") if identity is not None else None

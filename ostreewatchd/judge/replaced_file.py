# SPDX-License-Identifier: Apache-2.0
"""A single file that a container was given has been replaced on the host by rename: the container keeps the old one.

That is how editors and atomic writers work, and it is no switch: nothing is due unasked.

Source: rename(2); mount_namespaces(7): a bind is of the inode and not of the name."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.rule import Cure, Rule
from ostreewatchd.judge.runtime_namespace import differs
from ostreewatchd.model import Bind, Finding, Reference, Snapshot

rule = Rule("replaced-file", cure=Cure.RESTART_CONTAINER)


@rule
def judge(snapshot: Snapshot) -> Iterator[Finding]:
    """Each bind of a file whose host path is another file of the same tree now."""
    for container in snapshot.containers:
        for bind in container.binds:
            reference = snapshot.reference(bind.host_path, container.maker(bind))
            if reference is not None and replaced(bind, reference) and differs(snapshot, container, bind) is None:
                because = (
                    f"it has file {bind.sight.identity}, the host has {reference.sight.identity} in the same tree:"
                    " it was replaced by rename"
                )
                yield rule.stale(container, bind, expected=reference, owed=False, because=because)


def replaced(bind: Bind, reference: Reference) -> bool:
    """A file with another identity, and no sign of another deployment."""
    mine, theirs = bind.sight, reference.sight
    if mine.identity is None or theirs.identity is None or mine.identity == theirs.identity:
        return False
    return not mine.is_directory and mine.deployment == theirs.deployment and mine.identity.dev == theirs.identity.dev

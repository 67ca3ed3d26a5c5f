# SPDX-License-Identifier: Apache-2.0
"""A second opinion from the text of mountinfo alone: the line of the mount that the container has, against the
line of the mount that the host has there. It asks no stat(2), so it cannot always decide; where it does, it must
agree."""

from __future__ import annotations

import re
from typing import Literal

from ostreewatchd.model import Bind, Container, Reference, Snapshot
from ostreewatchd.parse.mountinfo import Mount, covers, parse_line

Opinion = Literal["fresh", "stale", "cannot decide"]

_DEPLOYMENT = re.compile(r"/ostree/deploy/[^/]+/deploy/([0-9a-f]{64}\.\d+)(?:/|\Z)")
_MANY_DEVICES = ("btrfs", "bcachefs")
"""Filesystems whose device in mountinfo is not that of their files."""


def opinion(bind: Bind, reference: Reference) -> Opinion:
    """Device and path in the filesystem, of the container's and of the host's. Another device is another tree; a root
    that was removed is no place that the host has; two deployments are two trees; the same place is the same
    directory. Two places in one tree may be one directory, by way of a link: that text cannot tell."""
    mine, theirs = parse_line(bind.sight.mount), parse_line(reference.sight.mount)
    if mine is None or theirs is None or {mine.fstype, theirs.fstype} & set(_MANY_DEVICES):
        return "cannot decide"
    if mine.device != theirs.device:
        return "stale"
    if theirs.deleted:
        return "cannot decide"
    if mine.deleted:
        return "stale"
    here, there = _place(mine, bind.path), _place(theirs, reference.host_path)
    if not here or not there:
        return "cannot decide"
    if here == there:
        return "fresh"
    of, on = _DEPLOYMENT.search(here), _DEPLOYMENT.search(there)
    return "stale" if of and on and of.group(1) != on.group(1) else "cannot decide"


def _place(mount: Mount, path: str) -> str:
    """The path in the filesystem; empty if the mount is not on the way to it (a link led away)."""
    if not covers(mount.point, path):
        return ""
    rest = path if mount.point == "/" else path[len(mount.point) :]
    return (mount.root.rstrip("/") + rest) or "/"


def identity_says(bind: Bind, reference: Reference) -> Opinion:
    """What the judge decides by: device and inode."""
    if bind.sight.identity is None or reference.sight.identity is None:
        return "cannot decide"
    return "fresh" if bind.sight.identity == reference.sight.identity else "stale"


def pairs(snapshot: Snapshot) -> list[tuple[Container, Bind, Reference]]:
    """Each bind with what its maker would bind now."""
    found = []
    for container in snapshot.containers:
        for bind in container.binds:
            namespace = container.binder.mount_namespace if bind.made_in is None else bind.made_in
            reference = snapshot.reference(bind.host_path, namespace)
            if reference is not None:
                found.append((container, bind, reference))
    return found

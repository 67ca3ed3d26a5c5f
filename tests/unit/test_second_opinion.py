# SPDX-License-Identifier: Apache-2.0
"""What the text of mountinfo alone tells, against what identity tells (DESIGN invariant 1), over all scenarios."""

from __future__ import annotations

import collections

from ostreewatchd.judge import judge
from ostreewatchd.model import Bind, Identity, Reference, Sight, Snapshot
from tests.scenarios.kit.catalogue import scenarios
from tests.scenarios.kit.opinion import identity_says, opinion, pairs
from tests.scenarios.kit.recorded import load

TREE = "/ostree/deploy/debian/deploy/"


def findings(snapshot: Snapshot) -> dict[tuple[str, str, str], str]:
    """Where the maker of a bind has another tree than PID 1, a comparison with either decides nothing."""
    return {
        (one.subject.container_id, one.path, one.inside): "unknown" if one.rule == "runtime-namespace" else one.verdict
        for one in judge(snapshot)
    }


def test_they_agree_wherever_text_decides() -> None:
    said: collections.Counter[str] = collections.Counter()
    for one in scenarios():
        snapshot = load(one.saved)
        judged = findings(snapshot)
        for container, bind, reference in pairs(snapshot):
            text, identity = opinion(bind, reference), identity_says(bind, reference)
            said[text] += 1
            where = f"{one.name}: {container.name} {bind.path}: {bind.sight.mount} | {reference.sight.mount}"
            if "cannot decide" not in (text, identity):
                assert text == identity, where
            verdict = judged.get((container.id, bind.host_path, bind.path))
            if text == "fresh":
                assert verdict in (None, "unknown"), where
            elif text == "stale" and identity == "stale":
                above = [other.path for other in container.binds if bind.path.startswith(other.path.rstrip("/") + "/")]
                stale_above = any(
                    (container.id, other.host_path, other.path) in judged
                    for other in container.binds
                    if other.path in above
                )
                assert verdict in ("stale", "unknown") or stale_above, where
    # So that it is an opinion, and no silence.
    assert said["stale"] >= 20 and said["fresh"] >= 10, said


def line(root: str, point: str, *, device: str = "8:1", kind: str = "ext4") -> str:
    return f"30 20 {device} {root} {point} rw,relatime - {kind} /dev/sda1 rw"


def asked(mine: str, theirs: str, *, path: str = "/host/etc", host_path: str = "/etc") -> str:
    bind = Bind(host_path=host_path, path=path, writable=True, propagated=False, sight=Sight(mount=mine))
    there = Sight(mount=theirs, identity=Identity(dev=1, ino=1))
    return opinion(bind, Reference(host_path=host_path, mount_namespace=1, sight=there))


def test_what_text_can_tell() -> None:
    """proc_pid_mountinfo(5): `root` is the path in the filesystem, `//deleted` that it was removed."""
    old, new = f"{TREE}{'a' * 64}.0/etc", f"{TREE}{'b' * 64}.0/etc"
    assert asked(line(old, "/host/etc"), line(new, "/etc")) == "stale"
    assert asked(line(new, "/host/etc"), line(new, "/etc")) == "fresh"
    assert asked(line(f"{new}/cni", "/host/etc"), line(new, "/etc"), host_path="/etc/cni") == "fresh"
    assert asked(line(f"{new}//deleted", "/host/etc"), line(new, "/etc")) == "stale"
    assert asked(line(new, "/host/etc", device="0:44"), line(new, "/etc")) == "stale"


def test_what_text_cannot_tell() -> None:
    """A link on the way, a directory that was moved, a filesystem of several devices, no line at all."""
    assert (
        asked(line("/snap/7000/args", "/host/etc"), line("/", "/"), host_path="/snap/current/args") == "cannot decide"
    )
    assert asked(line("/etc.old", "/host/etc"), line("/", "/")) == "cannot decide"
    assert (
        asked(line("/etc", "/host/etc", device="0:30", kind="btrfs"), line("/", "/", kind="btrfs")) == "cannot decide"
    )
    assert asked("", line("/", "/")) == "cannot decide"
    assert asked(line("/etc", "/elsewhere"), line("/", "/")) == "cannot decide"

# SPDX-License-Identifier: Apache-2.0
"""What is stale in a random world by asking the kernel alone: each container says what its own path is, and a
container that is made now says what it would be. Nothing of the product is used for that; then the judge's word is
held against it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from ostreewatchd.judge import judge
from ostreewatchd.model import Bind, Finding, Snapshot
from tests.host.clone import Seen
from tests.host.mountworld import CNI, WATCHED, Container, World
from tests.host.worldprocesses import OWN, Given


class Claim(NamedTuple):
    """What the kernel says of one path of one container."""

    container_id: str
    host_path: str
    path: str
    is_bind: bool
    """A mount is there. And not: it is seen by way of an ancestor's."""
    is_given: bool
    """It is what the container was given, and not something below it."""
    verdict: str
    """fresh, stale, absent (in one of the two, or both), elsewhere (its binder sees another than PID 1)."""
    read_only: bool
    seen: tuple[int, int] | None
    expected: tuple[int, int] | None


def below(host_path: str) -> list[str]:
    """The watched paths that are seen by way of a bind of this one: what is to be added to it."""
    prefix = host_path.rstrip("/") + "/"
    return [path[len(prefix) - 1 :] for path in WATCHED if path.startswith(prefix)]


def claims(world: World, snapshot: Snapshot) -> list[Claim]:
    """All that can be claimed of the containers that run; of what the product says that they have, too."""
    told = {(one.id, bind.path) for one in snapshot.containers for bind in one.binds}
    places = {one.id: _places(one, {path for id, path in told if id == one.id}) for one in world.containers.values()}
    wanted = sorted({(given.source, rest) for found in places.values() for given, rest in found})
    sources = sorted({source for source, _ in wanted})
    asked = [f"/{sources.index(source)}{rest}" for source, rest in wanted]
    found = []
    references = {
        shim: dict(zip(wanted, world.fresh(shim, sources, asked)))
        for shim in {1, *(one.shim for one in world.containers.values())}
    }
    for one in world.containers.values():
        said = one.see([given.target.rstrip("/") + rest or "/" for given, rest in places[one.id]])
        for (given, rest), seen in zip(places[one.id], said):
            if not rest and (seen is None or not seen.is_mount):
                continue  # It was moved with the directory that it is on, or taken away: no longer held there.
            key = (given.source, rest)
            verdict = _verdict(seen, references[one.shim][key], references[1][key])
            host_path = given.source.rstrip("/") + rest or "/"
            path = given.target.rstrip("/") + rest or "/"
            is_mount = bool(seen and seen.is_mount)
            identity = (seen.dev, seen.ino) if seen else None
            reference = references[one.shim][key]
            fresh = (reference.dev, reference.ino) if reference else None
            read_only = bool(seen and seen.read_only)
            found.append(Claim(one.id, host_path, path, is_mount, not rest, verdict, read_only, identity, fresh))
    return found


def _places(one: Container, told: set[str]) -> list[tuple[Given, str]]:
    """The binds, the watched directories below them, and what else the product speaks of."""
    places = {(given, rest) for given in one.binds for rest in ("", *below(given.source))}
    for path in told:
        above = [given for given in one.binds if path.startswith(given.target.rstrip("/") + "/")]
        if above:
            given = max(above, key=lambda given: len(given.target))
            places.add((given, path[len(given.target.rstrip("/")) :] if path != "/" else ""))
    # The kernel takes away a mount whose directory is removed, in whatever namespace.
    own = [target for target, seen in one.own.items() if one.see([target]) == seen]
    # A bind that was made before one of a directory above it is hidden by that.
    targets = [given.target for given in one.binds]
    visible = [target for target, seen in zip(targets, one.see(targets)) if seen is not None and seen.is_mount]
    return sorted(place for place in places if _is_its_own(place[0].target, place[1], visible, own))


def _is_its_own(target: str, rest: str, visible: list[str], own: list[str]) -> bool:
    """Whether nothing else of the container stands there."""
    path = target.rstrip("/") + rest
    others = [other for other in visible if rest and other.startswith(target.rstrip("/") + "/")]
    return not any(path == other or path.startswith(other + "/") for other in (*others, *own))


def _verdict(seen: Seen | None, fresh: Seen | None, by_init: Seen | None) -> str:
    if seen is None or fresh is None:
        return "absent"
    if by_init is not None and by_init[:2] != fresh[:2]:
        return "elsewhere"
    return "fresh" if seen[:2] == fresh[:2] else "stale"


def disagreements(world: World, told: list[Claim], snapshot: Snapshot, counts: Counter[str]) -> list[str]:
    """Where the judge says something else than the kernel."""
    findings = judge(snapshot)
    binds = {(one.id, bind.path): bind for one in snapshot.containers for bind in one.binds}
    found = [f"problem: {one.where}: {one.what}" for one in snapshot.problems]
    renamed = {one.id for one in world.containers.values() if one.is_chrooted and _is_renamed(one, binds)}
    chrooted = {one.id for one in world.containers.values() if one.is_chrooted}
    for claim in told:
        if claim.container_id in renamed:
            counts["of a changed root, named by what it is called now"] += 1
            continue
        mine = [one for one in findings if (one.subject.container_id, one.inside) == (claim.container_id, claim.path)]
        bind = binds.get((claim.container_id, claim.path))
        counts[claim.verdict] += 1
        wrong = ""
        if bind is None:
            why = _why_unseen(claim)
            counts[f"not seen: {why or 'wrong'}"] += 1
            wrong = "" if why else "it is not seen at all"
        elif bind.host_path != claim.host_path and claim.container_id in chrooted:
            counts["of a changed root, named by what it is called now"] += 1
        elif bind.host_path != claim.host_path:
            wrong = f"it is said to be of {bind.host_path}"
        elif claim.is_bind and bind.writable == claim.read_only:
            wrong = f"it is said to be writable: {bind.writable}"
        else:
            wrong = _differs(claim, mine, findings)
        if wrong:
            found.append(f"{claim}: {wrong}")
    claimed = {(claim.container_id, claim.path) for claim in told}
    for one in findings:
        # What the container bound itself it was not given: no restart would make it again.
        is_own = one.inside == OWN or one.inside.startswith(OWN + "/")
        if one.verdict == "stale" and not is_own and (one.subject.container_id, one.inside) not in claimed:
            found.append(f"more than was given: {one.path} at {one.inside}: {one.reason}")
    return found


def _is_renamed(one: Container, binds: dict[tuple[str, str], Bind]) -> bool:
    """After a change of the root nothing tells what the container was given: its bundle's paths are of the old root.
    What was renamed on the host is then compared with the path that it has now."""
    found = [
        binds[one.id, given.target].host_path == given.source for given in one.binds if (one.id, given.target) in binds
    ]
    return not all(found)


def _why_unseen(claim: Claim) -> str:
    """Empty: there is no reason that is good enough. What was given as a CNI directory is always seen."""
    if claim.verdict == "absent" and not claim.is_bind:
        return "it is nowhere"
    if claim.is_given and claim.path.endswith(CNI):
        return ""
    if claim.host_path.startswith("/var/") or claim.seen in _shared():
        return "it is of /var, which all deployments share"
    points: dict[str, list[str]] = {}
    for line in Path("/proc/1/mountinfo").read_text().splitlines():
        points.setdefault(line.split()[2], []).append(line.split()[4])
    here = points.get(f"{os.major(claim.seen[0])}:{os.minor(claim.seen[0])}", []) if claim.seen else ["/"]
    if not here:
        return "its filesystem is no longer mounted on the host, and nothing tells it from the container's own"
    if claim.verdict == "absent" and not any(
        f"{point}/".startswith(("/etc/", "/usr/")) or point == "/" for point in here
    ):
        return "its filesystem was moved out of the live tree, and nothing is at its path now"
    return ""


def _shared() -> set[tuple[int, int]]:
    """What is in the directory of /var that is mounted elsewhere, too."""
    found = [os.stat("/var/lib/data"), *(os.stat(one[0]) for one in os.walk("/var/lib/data"))]
    return {(one.st_dev, one.st_ino) for one in found}


def _differs(claim: Claim, mine: list[Finding], all_findings: tuple[Finding, ...]) -> str:
    said = sorted({one.verdict for one in mine})
    above = [
        one
        for one in all_findings
        if one.subject.container_id == claim.container_id
        and one.verdict == "stale"
        and claim.path.startswith(one.inside.rstrip("/") + "/")
    ]
    if claim.verdict == "fresh":
        return f"said to be {said}: {[one.reason for one in mine]}" if said else ""
    if claim.verdict == "stale":
        return "" if said == ["stale"] or (not said and above) else f"said to be {said or 'fresh'}"
    if claim.verdict == "elsewhere":
        right = said == ["unknown"] and all("restarting it cures nothing" in one.reason for one in mine)
        return "" if right or (not said and above) else f"said to be {said}: {[one.reason for one in mine]}"
    # Not there: unknown with where it is missing, or nothing where it is missing in both.
    if said == ["unknown"]:
        right = all(one.reason.startswith(("on the host:", "in the container:")) for one in mine)
        return "" if right else f"unknown because {[one.reason for one in mine]}"
    return f"said to be {said}" if said else ""

# SPDX-License-Identifier: Apache-2.0
"""The runtime still has what it had: told by this node alone, without a credential.

A runtime that is READY may know none of its pods (CRI-O after a damaged layer: 0 pods known, READY=1 all the same, all
containers running without anybody who can stop them), or be removing them without a word (its version file is missing,
or of another minor version). That is no recovery, however healthy all else looks.

Sources: cri-o server.restore, server.wipeIfAppropriate, internal/version; cri-o#1726 (containers left running and
unmanaged), cri-o#2479 (a restart that makes all pods anew), cri-o#10343 (failed crio-conmon scopes), cri-o#5569
(sandboxes in virtual machines are not restored); containerd#10437 (containers that stay in Created)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ostreewatchd.judge.recovery.row import Moment, absent, bad, good, named, old
from ostreewatchd.model import ContainerSeen, Row, Sample, SandboxSeen

BOOT = "same-boot"
KNOWN = "pods-known"
MANAGED = "all-managed"
RUN = "containers-run"
MONITORS = "monitors"
_BEING_CREATED = 30.0
"""Seconds that a container may be `created` before it is started."""


def boot(moment: Moment) -> Iterator[Row]:
    """The machine was not rebooted: then the restart is history, and so is all that was known."""
    if moment.sample.boot_id != moment.recovery.boot_id:
        yield bad(BOOT, "the machine was rebooted since")
    else:
        yield good(BOOT, "not rebooted since")


def known(moment: Moment) -> Iterator[Row]:
    """Each pod that had a sandbox has one, unless kubelet has forgotten it."""
    cri = moment.sample.cri
    if cri.problem:
        yield absent(KNOWN, f"the runtime lists none: {cri.problem}")
        return
    here = {one.uid for one in cri.sandboxes}
    lost = _lost(moment, {one.uid for one in cri.sandboxes if one.ready})
    gone = _vanished(moment, here)
    if cri.asked <= moment.restart:
        yield old(KNOWN, "its pods were listed before the restart")
    elif lost_all(moment):
        yield bad(KNOWN, f"the runtime knows none of the {len(_directories(moment))} pods that kubelet has")
    elif lost:
        yield bad(KNOWN, f"ready before, and not now: {named({str(one) for one in lost})}")
    elif gone:
        yield bad(KNOWN, f"removed by the runtime meanwhile: {named({str(one) for one in gone})}")
    else:
        yield good(KNOWN, f"the runtime has {sum(1 for one in cri.sandboxes if one.ready)} pods")


def managed(moment: Moment) -> Iterator[Row]:
    """No container of a pod runs that the runtime does not know."""
    orphans = moment.sample.orphans
    if orphans is None:
        yield absent(MANAGED, "which containers run could not be told")
    elif moment.sample.cri.problem:
        yield absent(MANAGED, f"the runtime lists none: {moment.sample.cri.problem}")
    elif moment.sample.cri.asked <= moment.restart:
        yield old(MANAGED, "its containers were listed before the restart")
    elif orphans:
        yield bad(MANAGED, f"they run, and the runtime does not know them: {named({one[:12] for one in orphans})}")
    else:
        yield good(MANAGED, "no container of a pod runs without the runtime")


def run(moment: Moment) -> Iterator[Row]:
    """What ran runs; nothing is restarted meanwhile, and nothing is stuck before its start."""
    sample, cri = moment.sample, moment.sample.cri
    if cri.problem:
        yield absent(RUN, f"the runtime lists none: {cri.problem}")
        return
    last = _containers(moment.last)
    ended = [f"{one} (exit {one.exit_code})" for one in _ended(moment)]
    stuck = [one for one in cri.containers if one.state == "created" and _age(sample, one) > _BEING_CREATED]
    growing = [one for key, one in _containers(sample).items() if key in last and one.attempt > last[key].attempt]
    if cri.asked <= moment.restart:
        yield old(RUN, "its containers were listed before the restart")
    elif ended:
        yield bad(RUN, f"down since the restart: {named(ended)}")
    elif stuck:
        yield bad(RUN, f"created and not started: {named(stuck)}")
    elif growing:
        yield bad(RUN, f"restarted meanwhile: {named(growing)}")
    else:
        yield good(RUN, f"{sum(1 for one in cri.containers if one.state == 'running')} containers run")


def monitors(moment: Moment) -> Iterator[Row]:
    """No scope of a conmon failed in the restart: of those a container's start was lost."""
    failed = moment.sample.failed_monitors
    before = {one.unit for one in moment.before.failed_monitors or ()} if moment.before is not None else set()
    if failed is None:
        yield absent(MONITORS, "systemd does not tell which scopes failed")
        return
    new = [one.unit for one in failed if one.unit not in before and one.at >= moment.recovery.since]
    if new:
        yield bad(MONITORS, f"failed in the restart (systemctl reset-failed clears it): {named(new)}")
    else:
        yield good(MONITORS, "no conmon failed in the restart")


def alarm(moment: Moment) -> str:
    """What must be told loudly; empty: nothing. Only of a runtime that says that it is ready."""
    sample = moment.sample
    if sample.cri.problem or not sample.cri.ready:
        return ""
    if lost_all(moment):
        running = f", and {len(sample.orphans)} containers run unmanaged" if sample.orphans else ""
        return f"the runtime says that it is ready and knows none of its pods{running}: its storage may be damaged"
    gone = _vanished(moment, {one.uid for one in sample.cri.sandboxes})
    if len(gone) > 1:
        return f"the runtime says that it is ready and is removing its pods: {named({str(one) for one in gone})}"
    if sample.orphans:
        return f"the runtime says that it is ready and does not know {len(sample.orphans)} containers that run"
    return ""


def lost_all(moment: Moment) -> bool:
    """Whether the runtime lists no pod at all and there are some: kubelet keeps their directories, or they run."""
    sample = moment.sample
    if sample.cri.problem or sample.cri.sandboxes:
        return False
    had = moment.before is not None and any(one.ready for one in moment.before.cri.sandboxes)
    return bool(_directories(moment)) or bool(sample.orphans) or (had and sample.api.directories is None)


def made_anew(moment: Moment) -> list[SandboxSeen]:
    """Pods that were there before the restart and have been given a new sandbox since: the restart was no small
    thing."""
    if moment.before is None:
        return []
    before = {one.id for one in moment.before.cri.sandboxes}
    uids = {one.uid for one in moment.before.cri.sandboxes if one.ready}
    return [one for one in moment.sample.cri.sandboxes if one.ready and one.uid in uids and one.id not in before]


def _directories(moment: Moment) -> set[str]:
    return set(moment.sample.api.directories or ())


def _is_kept(moment: Moment, uid: str) -> bool:
    """Whether kubelet still has the pod, as far as that can be told, and it is to run."""
    api = moment.sample.api
    if api.pods is not None:
        return any(pod.uid == uid and not pod.going and not pod.ended for pod in api.pods)
    return api.directories is None or uid in api.directories


def _lost(moment: Moment, ready: set[str]) -> list[SandboxSeen]:
    if moment.before is None:
        return []
    mine = [one for one in moment.before.cri.sandboxes if one.ready]
    return [one for one in mine if one.uid not in ready and _is_kept(moment, one.uid)]


def _vanished(moment: Moment, here: set[str]) -> list[SandboxSeen]:
    """Those that were ready at the last sample and are not even listed, with kubelet still having the pod."""
    if moment.last is None or moment.last.cri.problem:
        return []
    mine = [one for one in moment.last.cri.sandboxes if one.ready]
    return [one for one in mine if one.uid not in here and _is_kept(moment, one.uid)]


def _ended(moment: Moment) -> Iterator[ContainerSeen]:
    """Containers that ran before and do not run; without a record from before, those that failed since."""
    now = _containers(moment.sample)
    if moment.before is not None:
        for key, one in _containers(moment.before).items():
            if one.state == "running" and _is_kept(moment, one.uid):
                here = now.get(key)
                if here is None:
                    yield one
                elif here.state != "running" and here.exit_code != 0:
                    yield here
        return
    for one in now.values():
        if one.state != "exited" or not one.exit_code or one.ended_wall is None or not _is_kept(moment, one.uid):
            continue
        if moment.sample.moment(one.ended_wall) > moment.recovery.since:
            yield one


def _containers(sample: Optional[Sample]) -> dict[tuple[str, str], ContainerSeen]:
    return {(one.uid, one.name): one for one in sample.cri.containers} if sample is not None else {}


def _age(sample: Sample, container: ContainerSeen) -> float:
    return sample.wall - container.created_wall if container.created_wall is not None else 0.0

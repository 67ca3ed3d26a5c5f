# SPDX-License-Identifier: Apache-2.0
"""One look at the world: a Snapshot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple, Optional, Protocol

from ostreewatchd import __version__
from ostreewatchd.model import (
    Credential,
    Daemon,
    Flag,
    History,
    KubeletView,
    Live,
    Node,
    Problem,
    RpmOstreeView,
    Runtime,
    RuntimeView,
    Settings,
    Snapshot,
    SystemView,
)
from ostreewatchd.observe import host as hosts
from ostreewatchd.observe import live as lives
from ostreewatchd.observe.certificates import with_certificates
from ostreewatchd.observe.cniplaces import Named, cni_places
from ostreewatchd.observe.cnireaders import cni_readers
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.credentials import Credentials
from ostreewatchd.observe.ostree import ostree
from ostreewatchd.observe.references import references
from ostreewatchd.peers import proc
from ostreewatchd.peers.hostmounts import HostMounts
from ostreewatchd.platforms import Platform

_MAX_PROBLEMS = 100
_MAX_LOOKS = 4
"""Looks in a row, where the host moved during each."""


class Answers(NamedTuple):
    """What processes said that were asked."""

    system: SystemView
    runtime: RuntimeView
    kubelet: KubeletView
    rpm_ostree: RpmOstreeView
    node_runtime: Optional[Runtime] = None


class Deep(Protocol):
    """What only the remediation and a person may ask: processes that answer."""

    def with_acceptance(self, host: hosts.Host, credentials: Sequence[Credential]) -> tuple[Credential, ...]: ...

    def ask(
        self, host: hosts.Host, platform: Platform, daemons: Sequence[Daemon], live: Live, history: History
    ) -> Answers: ...


class Glance(NamedTuple):
    """The cheap part of a look: what tells a switch. Valid while its host is open."""

    host: hosts.Host
    platform: Platform
    named: tuple[Named, ...]
    """What the runtimes' configuration says."""
    cni_directories: tuple[str, ...]
    boot_id: str
    live: Live
    flags: tuple[Flag, ...]
    devices: frozenset[int]
    """Of the filesystems that it met."""
    restarts_silent_writers: bool = False


def glance(host: hosts.Host, settings: Settings) -> Glance:
    """What is live and what is under way. Raises HostGone."""
    devices: set[int] = set()
    host.root.step = devices.add
    platform = hosts.platform_of(host.root)
    named = cni_places(host.root, platform)
    theirs = (one.places.conf_dir for one in named if one.places.conf_dir and not one.without_pods)
    directories = tuple(dict.fromkeys((*platform.cni_directories, *theirs, *settings.cni_directories)))
    boot = hosts.boot_id(host.root)
    live = lives.live(host, boot, directories)
    flags = lives.under_way(host, live.deployments.booted)
    host.root.step = None
    restarts = settings.restart_silent_writers
    return Glance(host, platform, named, directories, boot, live, flags, frozenset(devices), restarts)


def look(
    settings: Settings,
    looker: ContainerLooker,
    history: History,
    *,
    deep: Optional[Deep] = None,
    mounts: Optional[HostMounts] = None,
) -> Snapshot:
    """The world now. Raises HostGone where PID 1 cannot be looked at; all else that cannot be read is in
    `problems`, and the rest holds."""
    for _ in range(_MAX_LOOKS):
        with hosts.Host(mounts) as host:
            snapshot = look_on(glance(host, settings), looker, history, deep=deep)
        if not snapshot.torn:
            break
    return snapshot


def look_on(first: Glance, looker: ContainerLooker, history: History, *, deep: Optional[Deep] = None) -> Snapshot:
    """The rest of a look, after its first glance."""
    host, platform, directories = first.host, first.platform, first.cni_directories
    now, now_boottime = time.time(), proc.boottime()
    seen = looker.look(host, platform, directories)
    found, trouble = references(host, seen.containers, seen.daemons, directories, seen.roots)
    containers, found = with_certificates(host, seen.containers, found, platform.pki, seen.roots)
    credentials = looker.credentials.look(
        Credentials(host, platform, directories, seen.roots), containers, found, first.live.fingerprint
    )
    if deep:
        credentials = deep.with_acceptance(host, credentials)
    readers = cni_readers(host, platform, first.named, seen.daemons, seen.roots, looker.watches)
    torn = _torn(first)
    moved = [Problem(where="the host", what=torn)] if torn else []
    answers = deep.ask(host, platform, seen.daemons, first.live, history) if deep else None
    return Snapshot(
        product=__version__,
        torn=torn,
        taken_at=now,
        taken_boottime=now_boottime,
        node=Node(
            name=hosts.node_name(), boot_id=first.boot_id, kernel=hosts.kernel_release(), platform=platform.name
        ),
        live=first.live,
        ostree=ostree(host, first.live),
        init_mount_namespace=host.namespace,
        cni_directories=directories,
        writers=platform.writers,
        self_written=platform.self_written,
        daemons=tuple(seen.daemons),
        vm_sandboxes=tuple(seen.vm_sandboxes),
        container_count=seen.container_count,
        containers=tuple(containers),
        references=tuple(found),
        flags=first.flags,
        credentials=credentials,
        cni_readers=readers,
        restarts_silent_writers=first.restarts_silent_writers,
        history=history,
        system=answers.system if answers else None,
        runtime=answers.runtime if answers else None,
        node_runtime=answers.node_runtime if answers else None,
        kubelet=answers.kubelet if answers else None,
        rpm_ostree=answers.rpm_ostree if answers else None,
        problems=tuple((moved + seen.problems + trouble)[:_MAX_PROBLEMS]),
    )


def _torn(first: Glance) -> str:
    """What moved since the glance: a container that was looked at before a mount and a host that was looked at after
    it differ, and nothing is stale. Mounts that change nothing about the live tree are no reason."""
    host, booted = first.host, first.live.deployments.booted
    now: Optional[tuple[Flag, ...]] = None
    host.root.step = hosts.only_on(first.devices)  # What came since may be of a filesystem that does not answer.
    try:
        if lives.is_unmoved(host.root, first.live, first.boot_id, first.cni_directories):
            now = lives.under_way(host, booted)
    except proc.Unreadable:
        now = None
    finally:
        host.root.step = None
    if now is None:
        if lives.fingerprint_now(host, first.boot_id, first.cni_directories) != first.live.fingerprint:
            return "the host was switched during the look"
        now = lives.under_way(host, booted)
    before = {flag.path for flag in first.flags}
    came = sorted({flag.path for flag in now} - before)
    return f"{', '.join(came)} came during the look" if came else ""

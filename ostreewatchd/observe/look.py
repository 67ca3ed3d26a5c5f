# SPDX-License-Identifier: Apache-2.0
"""One look at the world: a Snapshot."""

from __future__ import annotations

import time
from typing import Optional, Protocol

from ostreewatchd import __version__
from ostreewatchd.model import History, KubeletView, Node, RuntimeView, Settings, Snapshot, SystemView
from ostreewatchd.observe import host as hosts
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.references import references
from ostreewatchd.peers import proc
from ostreewatchd.platforms import Platform

_MAX_PROBLEMS = 100


class Deep(Protocol):
    """What only the remediation and a person may ask: processes that answer."""

    def ask(self, host: hosts.Host, platform: Platform) -> tuple[SystemView, RuntimeView, KubeletView]: ...


def look(settings: Settings, looker: ContainerLooker, history: History, *, deep: Optional[Deep] = None) -> Snapshot:
    """The world now. Raises HostGone where PID 1 cannot be looked at; all else that cannot be read is in
    `problems`, and the rest holds."""
    now, now_boottime = time.time(), proc.boottime()
    with hosts.Host() as host:
        boot = hosts.boot_id(host.root)
        platform = hosts.platform_of(host.root)
        directories = tuple(dict.fromkeys((*platform.cni_directories, *settings.cni_directories)))
        count, containers, problems = looker.look(host, platform, directories)
        found, trouble = references(host, containers, directories)
        system, runtime, kubelet = deep.ask(host, platform) if deep else (None, None, None)
        return Snapshot(
            product=__version__,
            taken_at=now,
            taken_boottime=now_boottime,
            node=Node(name=hosts.node_name(), boot_id=boot, kernel=hosts.kernel_release(), platform=platform.name),
            live=hosts.live(host, boot, directories),
            init_mount_namespace=host.namespace,
            cni_directories=directories,
            writers=platform.writers,
            self_written=platform.self_written,
            container_count=count,
            containers=tuple(containers),
            references=tuple(found),
            flags=hosts.flags(host.root, platform.flags),
            history=history,
            system=system,
            runtime=runtime,
            kubelet=kubelet,
            problems=tuple((problems + trouble)[:_MAX_PROBLEMS]),
        )

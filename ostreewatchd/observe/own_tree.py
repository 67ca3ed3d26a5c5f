# SPDX-License-Identifier: Apache-2.0
"""Whether the watcher itself still runs from a tree that is no longer the live one."""

from __future__ import annotations

from typing import Optional

from ostreewatchd.model import short_name
from ostreewatchd.observe.host import Host, sight
from ostreewatchd.parse import cgroup
from ostreewatchd.parse.mountinfo import Mount, MountTable, deployment_of, parse
from ostreewatchd.peers import proc

_COMMAND = "ostreewatchd"


def stale_watcher(unit: str) -> str:
    """Why the watcher is stale; empty if it is not, does not run, or cannot be told. Its program file's mount
    belongs to the deployment that it was started from. Raises HostGone."""
    for pid in proc.named(_COMMAND):
        try:
            if cgroup.unit(proc.read(pid, "cgroup") or b"") != unit:
                continue
            started_from = _program_mount(pid)
        except proc.Unreadable:
            continue
        if started_from is None:
            continue
        with Host() as host:
            usr = sight(host.root, host.table, "/usr")
            live = host.table.visible("/usr")
        mine, _ = deployment_of(started_from.root)
        if mine and usr.deployment and mine != usr.deployment:
            return f"it runs from {short_name(mine)}, and /usr is of {short_name(usr.deployment)}"
        if mine and not usr.deployment and live is not None and live.device != started_from.device:
            return f"it runs from {short_name(mine)}, and /usr is another filesystem now ({live.fstype})"
    return ""


def _program_mount(pid: int) -> Optional[Mount]:
    mount_id = proc.program_mount_id(pid)
    return MountTable(parse(proc.read(pid, "mountinfo") or b"")).by_id(mount_id)

# SPDX-License-Identifier: Apache-2.0
"""Whether the watcher itself still runs from a tree that is no longer the live one."""

from __future__ import annotations

import os
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
        except (proc.Unreadable, OSError):
            continue
        if started_from is None:
            continue
        with Host() as host:
            usr = sight(host.root, host.table, "/usr")
            device = host.table.visible("/usr")
        mine, _ = deployment_of(started_from.root)
        if mine and usr.deployment and mine != usr.deployment:
            return f"it runs from {short_name(mine)}, and /usr is of {short_name(usr.deployment)}"
        if mine and not usr.deployment and device is not None and device.device != started_from.device:
            return f"it runs from {short_name(mine)}, and /usr is another filesystem now ({device.fstype})"
    return ""


def _program_mount(pid: int) -> Optional[Mount]:
    fd = os.open(f"/proc/{pid}/exe", os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{fd}", "rb") as file:
            info = file.read(4096)
    finally:
        os.close(fd)
    ids = [line.split()[1] for line in info.splitlines() if line.startswith(b"mnt_id:")]
    table = MountTable(parse(proc.read(pid, "mountinfo") or b""))
    return table.by_id(int(ids[0])) if ids else None

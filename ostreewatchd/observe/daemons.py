# SPDX-License-Identifier: Apache-2.0
"""The processes of the host that stand behind containers: runtime and kubelet, which make their binds, and the shims
of pods that run in a virtual machine, of which the host's kernel knows no container.

Source: comm in proc_pid_comm(5); kata-containers src/runtime/cmd/containerd-shim-kata-v2 and containerd's shim
interface (`-id <sandbox>`); MCO kubens.service (a mount namespace that daemons join)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Optional

from ostreewatchd.model import Daemon, Pod, VmSandbox
from ostreewatchd.observe.host import Host
from ostreewatchd.observe.owners import Owners
from ostreewatchd.parse import cgroup
from ostreewatchd.peers import proc
from ostreewatchd.platforms import GENERIC, PLATFORMS, Platform

_COMMANDS = frozenset(
    command.encode()
    for platform in (*PLATFORMS, GENERIC)
    for command in (*platform.runtime_commands, *platform.kubelet_commands)
)
_SHIM = b"containerd-shim"
"""What the kernel keeps of the name of any of containerd's shims: fifteen bytes."""
_PLAIN_SHIM = "containerd-shim-runc-"
"""The programs whose containers are processes of the host."""
_VM_SHIM = "containerd-shim-kata"
_ID = re.compile(r"[0-9a-f]{64}")
_MAX_SANDBOXES = 1000


def helper(pid: int) -> str:
    """What the process is, if it may be one of those; empty: none, or it cannot be told."""
    try:
        # Nearly all are told by their program, at half of what asking for a name costs: kernel threads and shims.
        program = proc.program(pid)
        if program is None or program.rpartition("/")[2].startswith(_PLAIN_SHIM):
            return ""
        command = (proc.read(pid, "comm") or b"").rstrip(b"\n")
        if command in _COMMANDS:
            return command.decode()
        # A command line is read from the process's own memory, and that may be where nothing answers.
        if command != _SHIM or proc.user(pid) != 0:
            return ""
        name = next(iter(proc.command_line(pid)), "").rpartition("/")[2]
    except proc.Unreadable:
        return ""
    return name if name.startswith(_VM_SHIM) else ""


def daemons(helpers: Iterable[tuple[int, str]], host: Host, platform: Platform) -> list[Daemon]:
    """Runtime and kubelet. A process in a container may take such a name, so they are root's and in none."""
    found = []
    for pid, name in helpers:
        if name in platform.kubelet_commands:
            one = _daemon(pid, name, host, is_kubelet=True)
        elif name in platform.runtime_commands:
            one = _daemon(pid, name, host, is_kubelet=False)
        else:
            continue
        if one is not None:
            found.append(one)
    return found


def _daemon(pid: int, name: str, host: Host, *, is_kubelet: bool) -> Optional[Daemon]:
    try:
        groups, namespace = proc.read(pid, "cgroup"), proc.mount_namespace(pid)
        if not groups or namespace is None or proc.user(pid) != 0 or cgroup.container_id(groups, host.around):
            return None
    except proc.Unreadable:
        return None
    unit = cgroup.unit(groups)
    return Daemon(
        kind="kubelet" if is_kubelet else "runtime",
        name=name,
        pid=pid,
        mount_namespace=namespace,
        unit=unit if unit.endswith(".service") else "",
        held_at=host.table.mounts.all.holding(namespace) if namespace != host.namespace else "",
    )


def vm_sandboxes(
    helpers: Iterable[tuple[int, str]], host: Host, owners: Owners, before: dict[str, VmSandbox]
) -> dict[str, VmSandbox]:
    """Pods that run in a virtual machine, by sandbox; `before`: those of the look before, which stay what they are."""
    found: dict[str, VmSandbox] = {}
    for pid, name in helpers:
        if not name.startswith(_VM_SHIM) or len(found) >= _MAX_SANDBOXES:
            continue
        try:
            sandbox, groups = _sandbox(proc.command_line(pid)), proc.read(pid, "cgroup") or b""
            # It may be in its pod's own cgroup (sandbox_cgroup_only).
            if not sandbox or proc.user(pid) != 0 or cgroup.container_id(groups, host.around) not in ("", sandbox):
                continue
        except proc.Unreadable:
            continue
        found[sandbox] = before.get(sandbox) or VmSandbox(
            sandbox_id=sandbox, pod=_pod(owners, sandbox, groups), shim=name
        )
    return found


def _sandbox(arguments: tuple[str, ...]) -> str:
    for name, value in zip(arguments, arguments[1:]):
        if name in ("-id", "--id") and _ID.fullmatch(value):
            return value
    return ""


def _pod(owners: Owners, sandbox: str, groups: bytes) -> Pod:
    spec = owners.bundle(sandbox)
    if spec is not None and spec.pod:
        return Pod(namespace=spec.namespace, name=spec.pod, uid=spec.pod_uid)
    return owners.pod_by_uid(cgroup.pod_of(groups))

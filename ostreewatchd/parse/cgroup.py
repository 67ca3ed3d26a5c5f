# SPDX-License-Identifier: Apache-2.0
"""/proc/<pid>/cgroup: which container a process belongs to, and which pod, where the path names it.

Source: cgroups(7); the layouts of kubelet's cgroupfs and systemd drivers, containerd and CRI-O."""

from __future__ import annotations

import re

_CONTAINER = re.compile(rb"[/:-]([0-9a-f]{64})(?:\.scope)?(?=$|/)", re.MULTILINE)
_POD = re.compile(rb"[/-]pod([0-9a-f]{8}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{12})")
_UNIT = re.compile(rb"/([^/\n]+\.(?:service|scope))(?=$|/)", re.MULTILINE)


def container_id(data: bytes) -> str:
    """The innermost container's id; empty if the process is in none. conmon's own scope is none."""
    if b"crio-conmon-" in data:
        return ""
    found = _CONTAINER.findall(data)
    return found[-1].decode() if found else ""


def pod_uid(data: bytes) -> str:
    """The pod's UID in kubelet's spelling, where the path has it (`cgroupsPerQOS: true`)."""
    match = _POD.search(data)
    return match.group(1).decode().replace("_", "-") if match else ""


def unit(data: bytes) -> str:
    """The systemd unit that the process is of; empty if none is named."""
    found = _UNIT.findall(data)
    return found[-1].decode("utf-8", "replace") if found else ""

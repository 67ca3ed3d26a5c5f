# SPDX-License-Identifier: Apache-2.0
"""/proc/<pid>/cgroup: which container a process belongs to, and which pod, where the path names it.

A container in a container (dind, kind, a kubelet in a pod) is the outer one's: that is the one which somebody on this
host can restart, and the inner ones end with it. The outer part of the path is also the one that a container cannot
make up: below its own cgroup it may name whatever it likes. So may a person below the cgroup of his own systemd: what
is called a container there is none of the runtime's.

Source: cgroups(7), cgroup_namespaces(7), user@.service(5) (Delegate=); the layouts of kubelet's cgroupfs and systemd
drivers, containerd, CRI-O."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

_CONTAINER = re.compile(rb"[/:-](?:(conmon)-)?([0-9a-f]{64})(?:\.scope)?(?=[/\n]|\Z)")
_POD = re.compile(rb"[/-]pod([0-9a-f]{8}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{12})")
_PERSONS = re.compile(rb"/user@[0-9]+\.service/")
_PERSONAL = b"/user@"
_MANAGERS = re.compile(rb"(?<!\.service)/init\.scope$", re.MULTILINE)
_UNIT = re.compile(rb"/([^/\n]+\.(?:service|scope))(?=$|/)", re.MULTILINE)


def container_id(data: bytes, around: Set[str] = frozenset()) -> str:
    """The outermost container's id; empty if the process is in none. A monitor's own scope (conmon) is none.
    `around`: containers that the host itself is in (kind: a node is one), which are none on it."""
    first = _CONTAINER.search(data)
    if first is None:
        return ""
    if not around and not first.group(1) and _PERSONAL not in data:
        return first.group(2).decode()  # As nearly always: nothing stands before it that needs a second look.
    return next((found for found, _ in _containers(data, around)), "")


def pod_uid(data: bytes, around: Set[str] = frozenset()) -> str:
    """The UID of that container's pod in kubelet's spelling, where the path has it (`cgroupsPerQOS: true`)."""
    if _POD.search(data) is None:
        return ""  # Of a dozen hierarchies none has it: nothing is to be taken apart.
    for _, above in _containers(data, around):
        found = _POD.findall(above)
        if found:
            return str(found[-1].decode()).replace("_", "-")
    return ""


def pod_of(data: bytes) -> str:
    """The pod's UID, of a process that is in none of its containers (a shim in its pod's cgroup)."""
    found = _POD.search(data)
    return found.group(1).decode().replace("_", "-") if found else ""


def container_ids(data: bytes) -> frozenset[str]:
    """All that the path names."""
    return frozenset(match.group(2).decode() for match in _CONTAINER.finditer(data))


def is_managers(data: bytes) -> bool:
    """Whether a systemd system manager is in it: init.scope is where that is, in any namespace and in any container
    that boots one (systemd.special(7)). A user's manager has one too, and is none of them."""
    return _MANAGERS.search(data) is not None


def unit(data: bytes) -> str:
    """The systemd unit that the process is of; empty if none is named."""
    found = _UNIT.findall(data)
    return found[-1].decode("utf-8", "replace") if found else ""


def _containers(data: bytes, around: Set[str]) -> Iterator[tuple[str, bytes]]:
    """Of each hierarchy that names one: the outermost, and the path above it."""
    line = outside = 0
    done = -1
    for match in _CONTAINER.finditer(data):  # Over all lines at once: of a dozen hierarchies most name none.
        here = match.start() + 1
        if here <= done:
            continue
        start = data.rfind(b"\n", 0, here) + 1
        if start != line:
            line = outside = start
        found = match.group(2).decode()
        if found in around:
            outside = match.end()
            continue
        if not match.group(1) and not _PERSONS.search(data, outside, here):
            yield found, data[line:here]
        end = data.find(b"\n", here)
        done = end if end >= 0 else len(data)

# SPDX-License-Identifier: Apache-2.0
"""Programs and libraries that the live tree has in another version than the process.

What the process executes and maps is the old one until it is started anew. What it starts by a path (conmon, a shim,
runc) is the new one for each new container, if its mount namespace has the new /usr; what runs keeps the old. They are
compared by content: behind an overlay each identity is another one, and nothing is marked as deleted.

Sources: cri-o internal/version and server.wipeIfAppropriate (another minor version: all pods are removed at the
start); mount_namespaces(7); ostree#2653 (an unlock that a private namespace does not see); MCO kubens.service."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional

from ostreewatchd.model import Change, Runtime, Service
from ostreewatchd.platforms.runtimes import HABITS


def of_runtime(runtime: Runtime) -> Iterator[Change]:
    """Its version, what it sees of /usr, and its programs."""
    old, new = _minor(runtime.version), _minor(runtime.version_on_disk)
    if HABITS[runtime.kind].wipes_on_minor and old is not None and new is not None and old != new:
        because = f"{runtime.version} runs and {runtime.version_on_disk} would be started, which removes all pods"
        yield Change(rule="runtime-minor-version", action="drain-and-reboot", because=because)
    yield from of_process(runtime.service)


def of_process(service: Service) -> Iterator[Change]:
    """Of any process."""
    if service.sees_usr is False and service.held_at:
        because = f"{service.unit} does not see the host's /usr, and would join {service.held_at} again"
        yield Change(rule="usr-not-seen", action="drain-and-reboot", because=because)
    elif service.sees_usr is False:
        yield Change(rule="usr-not-seen", action="restart", because=f"{service.unit} does not see the host's /usr")
    for one in service.programs:
        if one.same is None:
            because = f"{one.path}: it is not known whether its content is another one"
            yield Change(rule="programs", action="nothing", because=because, unknown=True)
        elif one.same:
            continue
        elif one.role in ("itself", "library"):
            what = "runs the old content of" if one.role == "itself" else "has the old content mapped of"
            yield Change(rule="programs", action="restart", because=f"{service.unit} {what} {one.path}")
        elif service.sees_usr is not None:
            because = f"{one.path} is another one: it is started by its path, for each new container"
            yield Change(rule="programs", action="nothing", because=because)
        else:
            because = f"{one.path} is another one, and it is not known whether {service.unit} sees it"
            yield Change(rule="programs", action="nothing", because=because, unknown=True)


def _minor(version: str) -> Optional[tuple[str, str]]:
    """`1.36.3` and `1.36.0+unknown` are of one minor version; None: the text tells none."""
    parts = version.lstrip("v").split(".")
    return (parts[0], parts[1]) if len(parts) >= 2 and parts[0].isdigit() and parts[1].isdigit() else None

# SPDX-License-Identifier: Apache-2.0
"""A unit file or drop-in of the live tree that systemd, or the process, does not have yet.

Sources: systemctl(1) daemon-reload; org.freedesktop.systemd1(5), NeedDaemonReload; rpm-ostree apply_live.rs (it
reloads systemd only where packages were removed or replaced, and never for its API's callers)."""

from __future__ import annotations

from collections.abc import Iterator

from ostreewatchd.judge.runtime.moment import came_after
from ostreewatchd.model import Change, Service


def of(service: Service) -> Iterator[Change]:
    """A restart without the reload would start the old one again."""
    if service.needs_daemon_reload:
        because = f"{service.unit}: systemd has not loaded its unit file, or a drop-in, as it is now"
        yield Change(rule="unit-files", action="restart", because=because, daemon_reload=True)
    elif came_after(service, service.unit_changed_at):
        because = f"{service.unit}: its unit file, or a drop-in, is newer than the process"
        yield Change(rule="unit-files", action="restart", because=because)

# SPDX-License-Identifier: Apache-2.0
"""Wakes when rpm-ostree or libostree writes down what it does to the live tree: the references of a live-apply, and
what lies in /run/ostree. A second live-apply makes no mount, and one with an installation ends without touching
/ostree/deploy or a signal.

Sources: rpm-ostree live.rs (write_live_state: references, then the stamp), ostree-sysroot.c (staged-deployment,
deployment-state). Files are renamed into these directories. Nothing is held below a deployment."""

from __future__ import annotations

import os
from typing import Callable

from inotify_simple import INotify, flags

from ostreewatchd.lean import asyncio

ROOT = "/proc/1/root"
_REFS = "ostree/repo/refs/heads"
_RUN = "run/ostree"
_STATE = f"{_RUN}/deployment-state"
_MAX_STATES = 32
"""Directories of deployments in _STATE. A boot makes one, or a few."""
_EVENTS = flags.MOVED_TO | flags.CREATE | flags.DELETE | flags.ONLYDIR


class TraceWatch:
    """Calls `changed` in the loop's thread. What is not there yet is looked for when its parent changes, and with each
    `arm`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        changed: Callable[[], None],
        root: str = ROOT,
    ) -> None:
        """Raises OSError where no inotify instance is left."""
        self._loop = loop
        self._changed = changed
        self._root = root
        self._inotify = INotify(nonblocking=True)
        loop.add_reader(self._inotify.fileno(), self._woken)
        self.arm()

    def arm(self) -> None:
        """Watch what is there. The same directory twice is one watch."""
        for name in (_REFS, f"{_REFS}/rpmostree", _RUN):
            self._watch(name)
        if self._watch(_STATE):
            try:
                states = sorted(os.listdir(f"{self._root}/{_STATE}"))[:_MAX_STATES]
            except OSError:
                states = []
            for state in states:
                self._watch(f"{_STATE}/{state}")

    def close(self) -> None:
        self._loop.remove_reader(self._inotify.fileno())
        self._inotify.close()

    def _watch(self, name: str) -> bool:
        try:
            self._inotify.add_watch(f"{self._root}/{name}", _EVENTS)
        except OSError:
            return False  # Not there (yet), or no directory: looked for again.
        return True

    def _woken(self) -> None:
        # The end of a watch tells nothing that its parent does not.
        if any(not event.mask & flags.IGNORED for event in self._inotify.read(timeout=0)):
            self.arm()
            self._changed()

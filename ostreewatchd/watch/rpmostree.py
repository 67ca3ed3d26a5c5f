# SPDX-License-Identifier: Apache-2.0
"""Wakes when rpm-ostree's daemon, or systemd on its behalf, says that something has happened.

Each signal is a hint and no more: after one the daemon's property is read, and the host is looked at. Signals that
are lost, doubled or out of order cost a look. Where there is no bus, or no such daemon, none comes: no fault."""

from __future__ import annotations

import contextlib
from typing import Callable, Optional

from ostreewatchd.lean import asyncio
from ostreewatchd.model import RpmOstreeView
from ostreewatchd.peers import rpmostree
from ostreewatchd.peers.bus import SYSTEM_BUS, Bus, BusError, Message

_PAUSES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Seconds between attempts to connect, after which only `again` makes one."""
_STEADY = 60.0
"""Seconds that a connection has lasted when its loss is the first of its kind."""
_CANCELLATIONS = 10
_TOGETHER = 0.1
"""Seconds: what comes within is one hint."""


class RpmOstreeWatch:
    """Calls `changed` in the loop's thread with what is known, after each hint and at each loss of the bus."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        changed: Callable[[RpmOstreeView], None],
        *,
        path: str = SYSTEM_BUS,
        pauses: tuple[float, ...] = _PAUSES,
    ) -> None:
        """Made inside the running loop."""
        self._loop = loop
        self._changed = changed
        self._path = path
        self._pauses = pauses
        self._view: Optional[RpmOstreeView] = None
        self._connected_at: Optional[float] = None
        self._news, self._again = asyncio.Event(), asyncio.Event()
        self.task = loop.create_task(self._run())
        """Has no end by itself: one is a fault of the program, and costs hints."""

    def again(self) -> None:
        """Connect now, if there is no connection."""
        self._again.set()

    async def close(self) -> None:
        """End it. More than once, for before Python 3.12 wait_for loses a cancellation that comes with its answer."""
        for _ in range(_CANCELLATIONS):
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=0.1)
            if self.task.done():
                return

    async def _run(self) -> None:
        failures = 0
        while True:
            self._connected_at = None
            try:
                why = await self._listen()
            except BusError as error:
                why = str(error)
            was_steady = self._connected_at is not None and self._loop.time() - self._connected_at >= _STEADY
            failures = 1 if was_steady else failures + 1
            # What it was is what it still is, as far as that matters: whether there is anything to listen to.
            installed = self._view.installed if self._view is not None else None
            view = RpmOstreeView(problem=why, installed=installed)
            if view != self._view:
                self._tell(view)
            await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        seconds = self._pauses[failures - 1] if failures <= len(self._pauses) else None
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._again.wait(), seconds)
        # Not before: what was asked for during an attempt that failed holds.
        self._again.clear()

    async def _listen(self) -> str:
        """Until the connection is lost: why. Raises BusError."""
        senders = rpmostree.Senders()

        def heard(message: Message) -> None:
            if senders.is_hint(message):
                self._news.set()

        bus = await Bus.open(self._path)
        gone = self._loop.create_task(bus.lost())
        gone.add_done_callback(lambda _: self._news.set())
        try:
            bus.listen(heard)
            await rpmostree.follow(bus, senders)
            self._connected_at = self._loop.time()
            # What happened before was not heard.
            self._news.set()
            subscribed = ""
            while True:
                await self._news.wait()
                await asyncio.sleep(_TOGETHER)
                self._news.clear()
                if gone.done():
                    return gone.result()
                if senders.systemd != subscribed:
                    subscribed = await self._subscribe(bus, senders.systemd)
                self._tell(await rpmostree.see(bus))
        finally:
            gone.cancel()
            bus.close()

    async def _subscribe(self, bus: Bus, systemd: str) -> str:
        """systemd's unique name, which is another one after it was executed anew; it may not be on the bus."""
        if systemd:
            # Refused, or no answer: then its jobs give no hint, and their mounts do.
            with contextlib.suppress(BusError):
                await rpmostree.subscribe(bus, systemd)
        return systemd

    def _tell(self, view: RpmOstreeView) -> None:
        self._view = view
        self._changed(view)

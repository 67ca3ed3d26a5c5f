# SPDX-License-Identifier: Apache-2.0
"""All that the watcher listens to, from its start to its end: each watch with what it wakes. What cannot be watched is
said, and found by looking again and again; only without the host's mounts there is nothing to do here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, Optional, TypeVar

from ostreewatchd.dates import next_date
from ostreewatchd.lean import asyncio
from ostreewatchd.report.journal import Journal, Kind
from ostreewatchd.watch.configurations import ConfigurationWatch
from ostreewatchd.watch.dates import DateWatch
from ostreewatchd.watch.deployments import DeploymentWatch
from ostreewatchd.watch.mounts import MountWatch
from ostreewatchd.watch.orders import OrderWatch
from ostreewatchd.watch.rpmostree import RpmOstreeWatch
from ostreewatchd.watch.traces import TraceWatch

if TYPE_CHECKING:
    from ostreewatchd.watcher import Watcher

_Watch = TypeVar("_Watch", DeploymentWatch, OrderWatch, TraceWatch, DateWatch)


class Listening:
    """The watches of one watcher, in its loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, journal: Journal, watcher: Watcher, every: float) -> None:
        """`every`: seconds between two looks that nobody asked for. Raises OSError: the host's mounts cannot be
        watched."""
        self._journal = journal
        self._every = every
        self._open: list[Callable[[], None]] = [MountWatch(loop, watcher.mounts_changed).close]
        self._watched("/ostree/deploy", lambda: DeploymentWatch(loop, watcher.deployments_changed))
        orders = self._watched("pauses", lambda: OrderWatch(loop, watcher.look_soon))
        traces = self._watched("rpm-ostree's traces", lambda: TraceWatch(loop, watcher.traces_changed))
        for one in (orders, traces):
            if one is not None:
                watcher.at_resync(one.arm)
        dates = self._watched("dates", lambda: DateWatch(loop, watcher.credentials_changed))
        if dates is not None:
            watcher.after_look(lambda _, snapshot: dates.arm(next_date(snapshot)))
        configurations = ConfigurationWatch(
            loop, watcher.credentials_changed, lambda why: self._not_watched("CNI directories", why)
        )
        self._open.append(configurations.close)
        watcher.after_look(lambda first, _: configurations.arm(first.host.root, first.cni_directories))
        self._rpm_ostree = RpmOstreeWatch(loop, watcher.rpm_ostree_changed)
        self._rpm_ostree.task.add_done_callback(watcher.listener_ended)
        watcher.at_resync(self._rpm_ostree.again)

    async def close(self) -> None:
        """End them all."""
        for close in self._open:
            close()
        await self._rpm_ostree.close()

    def _watched(self, what: str, make: Callable[[], _Watch]) -> Optional[_Watch]:
        try:
            made = make()
        except FileNotFoundError:
            self._not_watched(what, "not there")
        except OSError as error:
            self._not_watched(what, f"{error.strerror}: not watched")
        else:
            self._open.append(made.close)
            return made
        return None

    def _not_watched(self, what: str, why: str) -> None:
        self._journal.report(Kind.NOT_WATCHED, f"{what}: {why}; looking every {self._every:g} s")

# SPDX-License-Identifier: Apache-2.0
"""What a remediation needs of the world: looks, one stop, and time. The real one; a test may bring another."""

from __future__ import annotations

import time
from typing import Protocol

from ostreewatchd.act import stop as acts
from ostreewatchd.act import unit as units
from ostreewatchd.model import History, Sample, Settings, Snapshot, Step
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.deep import DeepLook
from ostreewatchd.observe.look import look
from ostreewatchd.observe.recovery import Sampler
from ostreewatchd.peers.aside import Aside
from ostreewatchd.peers.hostmounts import HostMounts

_LATE_TIMER = "ostreewatchd-late.timer"


class World(Protocol):
    """Looks, one stop, and time."""

    def look(self, history: History, *, deep: bool) -> Snapshot: ...

    def stop(self, step: Step, socket: str) -> str:
        """Stop the step's container or sandbox; what the runtime said. Raises PeerError."""
        ...

    def run_unit(self, step: Step) -> units.Ran:
        """Restart or reload the step's unit. Raises PeerError."""
        ...

    def sample(self) -> Sample:
        """What the node is like, for the judgement whether it has recovered. Raises HostGone."""
        ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class RealWorld:
    """This host."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._mounts = HostMounts()
        self._sampler = Sampler(settings)
        self._aside = Aside()
        self._deep = DeepLook()

    def look(self, history: History, *, deep: bool) -> Snapshot:
        return look(
            self._settings,
            ContainerLooker(remember=False, aside=self._aside),
            history,
            deep=self._deep if deep else None,
            mounts=self._mounts,
        )

    def stop(self, step: Step, socket: str) -> str:
        return acts.stop(step, socket)

    def sample(self) -> Sample:
        """As Seeing of remediation.recovering, as are the next ones."""
        return self._sampler.sample()

    def come_back(self) -> None:
        units.arm(_LATE_TIMER)

    def boottime(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def run_unit(self, step: Step) -> units.Ran:
        return units.run(step)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

# SPDX-License-Identifier: Apache-2.0
"""What a remediation needs of the world: looks, one stop, and time. The real one; a test may bring another."""

from __future__ import annotations

import time
from typing import Protocol

from ostreewatchd.act import stop as acts
from ostreewatchd.model import History, Settings, Snapshot, Step
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.deep import DeepLook
from ostreewatchd.observe.look import look
from ostreewatchd.peers.aside import Aside
from ostreewatchd.peers.hostmounts import HostMounts


class World(Protocol):
    """Looks, one stop, and time."""

    def look(self, history: History, *, deep: bool) -> Snapshot: ...

    def stop(self, step: Step, socket: str) -> str:
        """Stop the step's container or sandbox; what the runtime said. Raises PeerError."""
        ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class RealWorld:
    """This host."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._mounts = HostMounts()
        self._aside = Aside()

    def look(self, history: History, *, deep: bool) -> Snapshot:
        return look(
            self._settings,
            ContainerLooker(remember=False, aside=self._aside),
            history,
            deep=DeepLook() if deep else None,
            mounts=self._mounts,
        )

    def stop(self, step: Step, socket: str) -> str:
        return acts.stop(step, socket)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

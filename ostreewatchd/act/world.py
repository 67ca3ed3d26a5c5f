# SPDX-License-Identifier: Apache-2.0
"""What an act needs of the world: looks, one stop, and time. The real one; a test may bring another."""

from __future__ import annotations

import time
from typing import Protocol

from ostreewatchd.model import History, Snapshot, Step
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.deep import DeepLook
from ostreewatchd.observe.look import look
from ostreewatchd.parse.settings import Settings
from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.types import Stopped

_DEADLINE = 10.0


class World(Protocol):
    """Looks, one stop, and time."""

    def look(self, history: History, *, deep: bool) -> Snapshot: ...

    def stop(self, step: Step, socket: str) -> str:
        """Stop the step's container; what the runtime said. Raises PeerError."""
        ...

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class RealWorld:
    """This host."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def look(self, history: History, *, deep: bool) -> Snapshot:
        return look(self._settings, ContainerLooker(remember=False), history, deep=DeepLook() if deep else None)

    def stop(self, step: Step, socket: str) -> str:
        with RuntimeActs.connect(socket, deadline=_DEADLINE) as runtime:
            answer = runtime.stop_container(step.subject.container_id, step.grace)
        return "stopped" if answer is Stopped.NOW else "the runtime did not know it any more"

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

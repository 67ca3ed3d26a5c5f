# SPDX-License-Identifier: Apache-2.0
"""The container runtime: does what it is asked, or is silent, unclear, slow, or lies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable

from ostreewatchd.peers.cri.errors import AnswerUnclear, RuntimeLost, RuntimeRefused, RuntimeSilent, RuntimeUnavailable
from tests.sim.pods import Kubelet, Subject
from tests.sim.timeline import Timeline

MODES = ("ok", "slow", "silent", "silent-did", "unclear", "lost", "lost-did", "lies", "refuses", "away")
_DID = ("ok", "slow", "silent-did", "unclear", "lost-did")


@dataclass
class Runtime:
    """CRI, as far as a remediation uses it."""

    timeline: Timeline
    kubelet: Kubelet
    mode: str = "ok"
    """How a stop goes."""
    lists: bool = True
    """Whether it answers to questions."""
    stops: list[tuple[float, str]] = field(default_factory=list)
    before_effect: Callable[[Subject], None] = staticmethod(lambda _: None)

    def stop(self, id: str) -> str:
        """Stop the container of this id. Raises the client's errors."""
        subject = next((one for one in self.kubelet.subjects if one.id == id and one.runs), None)
        mode = self.mode
        if mode == "away":
            raise RuntimeUnavailable("no connection to a runtime", "start it")
        if mode == "refuses":
            raise RuntimeRefused("the runtime refused StopContainer", "see its journal", "INTERNAL")
        if mode == "slow":
            self.timeline.advance(8.0)
        if subject is not None and subject.id == id and mode in _DID:
            self.before_effect(subject)
            self.kubelet.end(subject)
        if mode in ("silent", "silent-did"):
            self.timeline.advance(10.0)
            raise RuntimeSilent("no answer to StopContainer after 10.0 s", "look again")
        if mode == "unclear":
            raise AnswerUnclear("answered with something that is no CRI message", "look again")
        if mode in ("lost", "lost-did"):
            raise RuntimeLost("the connection broke during StopContainer", "look again")
        self.timeline.advance(0.1)
        return "stopped" if subject is not None else "the runtime did not know it any more"

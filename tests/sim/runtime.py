# SPDX-License-Identifier: Apache-2.0
"""The container runtime: does what it is asked, or is silent, unclear, slow, or lies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Optional

from ostreewatchd.model import Step
from ostreewatchd.peers.cri.errors import AnswerUnclear, RuntimeLost, RuntimeRefused, RuntimeSilent, RuntimeUnavailable
from tests.sim.pods import Kubelet, Subject, Tree
from tests.sim.timeline import Timeline

MODES = ("ok", "slow", "silent", "silent-did", "unclear", "lost", "lost-did", "lies", "refuses", "refuses-did", "away")
_DID = ("ok", "slow", "silent-did", "unclear", "lost-did", "refuses-did")


@dataclass
class Runtime:
    """CRI, as far as a remediation uses it."""

    timeline: Timeline
    kubelet: Kubelet
    mode: str = "ok"
    """How a stop goes."""
    keeps: Optional[Tree] = None
    """What it sees in a mount namespace of its own; None: it sees the host's."""
    lists: bool = True
    """Whether it answers to questions."""
    stops: list[tuple[float, str]] = field(default_factory=list)
    before_effect: Callable[[Subject], None] = staticmethod(lambda _: None)

    def stop(self, step: Step) -> str:
        """Stop the step's container or sandbox. Raises the client's errors."""
        subject = next((one for one in self.kubelet.subjects if self._is_meant(one, step)), None)
        mode = self.mode
        if mode == "away":
            raise RuntimeUnavailable("no connection to a runtime", "start it")
        if mode == "refuses":
            raise RuntimeRefused("the runtime refused StopContainer", "see its journal", "INTERNAL")
        if mode == "slow":
            self.timeline.advance(8.0)
        if subject is not None and self._is_meant(subject, step) and mode in _DID:
            self.before_effect(subject)
            if step.kind == "stop-sandbox":
                self.kubelet.end_sandbox(subject)
            else:
                self.kubelet.end(subject)
        if mode == "refuses-did":
            raise RuntimeRefused("it was killed, and waiting for its end failed", "see its journal", "INTERNAL")
        if mode in ("silent", "silent-did"):
            self.timeline.advance(10.0)
            raise RuntimeSilent("no answer to StopContainer after 10.0 s", "look again")
        if mode == "unclear":
            raise AnswerUnclear("answered with something that is no CRI message", "look again")
        if mode in ("lost", "lost-did"):
            raise RuntimeLost("the connection broke during StopContainer", "look again")
        self.timeline.advance(0.1)
        return "stopped" if subject is not None else "the runtime did not know it any more"

    @staticmethod
    def _is_meant(one: Subject, step: Step) -> bool:
        if step.kind == "stop-sandbox":
            return one.sandbox_id == step.sandbox_id and one.sandbox_ready and one.name == step.subject.container
        return one.id == step.subject.container_id and one.runs

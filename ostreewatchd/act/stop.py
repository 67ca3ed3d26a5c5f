# SPDX-License-Identifier: Apache-2.0
"""Stops a container through its runtime. Kubelet, whose job it is, starts it again in place."""

from __future__ import annotations

from ostreewatchd.model import Step
from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.types import Stopped

_DEADLINE = 10.0


def stop_container(step: Step, socket: str) -> str:
    """Stop the step's container; what the runtime said. Raises PeerError."""
    with RuntimeActs.connect(socket, deadline=_DEADLINE) as runtime:
        answer = runtime.stop_container(step.subject.container_id, step.grace)
    return "stopped" if answer is Stopped.NOW else "the runtime did not know it any more"

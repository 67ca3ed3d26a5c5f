# SPDX-License-Identifier: Apache-2.0
"""Stops a container or a sandbox through the runtime. Kubelet, whose job it is, starts it again."""

from __future__ import annotations

from ostreewatchd.model import Step
from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.types import Stopped

_DEADLINE = 10.0
_SANDBOX_DEADLINE = 60.0
"""Seconds: the network plugin runs within the call, and the one that takes the network down may be the stale one."""


def stop(step: Step, socket: str) -> str:
    """Stop what the step is about; what the runtime said. Raises PeerError."""
    if step.kind == "stop-sandbox":
        with RuntimeActs.connect(socket, deadline=_SANDBOX_DEADLINE) as runtime:
            answer = runtime.stop_sandbox(step.sandbox_id)
    else:
        with RuntimeActs.connect(socket, deadline=_DEADLINE) as runtime:
            answer = runtime.stop_container(step.subject.container_id, step.grace)
    return "stopped" if answer is Stopped.NOW else "the runtime did not know it any more"

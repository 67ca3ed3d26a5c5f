# SPDX-License-Identifier: Apache-2.0
"""Stops containers and sandboxes; apart from `client`, so that who only looks need not load this."""

from __future__ import annotations

from . import runtime_pb2 as pb
from .channel import MAX_DEADLINE, Client, check_id
from .errors import NotFound
from .types import Stopped


class RuntimeActs(Client):
    """The writing half of a runtime's CRI, for the one place that acts.

    Each method is one call, never repeated by itself, and raises the errors of `errors.py`. After
    `RuntimeSilent`, `RuntimeLost` or `AnswerUnclear` it is not known whether the stop took effect.
    """

    def stop_container(self, id: str, grace: int) -> Stopped:
        """Stops one container by its full id; `grace` is the seconds from stop signal to SIGKILL, 0 kills.

        preStop hooks do not run: they are kubelet's. Raises BadId for an id that is not full, and ValueError
        if grace and deadline together are not within 0 and MAX_DEADLINE.
        """
        check_id("container", id)
        most = int(MAX_DEADLINE - self._channel.deadline)
        if not 0 <= grace <= most:
            raise ValueError(f"a grace period must be from 0 to {most} s, not {grace!r}")
        request = pb.StopContainerRequest(container_id=id, timeout=grace)
        try:
            self._channel.call(
                "StopContainer",
                request,
                pb.StopContainerResponse,
                limit=grace + self._channel.deadline,
                acts=True,
            )
        except NotFound:
            return Stopped.GONE
        return Stopped.NOW

    def stop_sandbox(self, id: str) -> Stopped:
        """Kills a sandbox by its full id with all its containers, and takes its network down.

        The network plugin runs within the call, so the deadline must leave time for it. Raises BadId for an
        id that is not full.
        """
        request = pb.StopPodSandboxRequest(pod_sandbox_id=check_id("sandbox", id))
        try:
            self._channel.call("StopPodSandbox", request, pb.StopPodSandboxResponse, acts=True)
        except NotFound:
            return Stopped.GONE
        return Stopped.NOW

# SPDX-License-Identifier: Apache-2.0
"""Asks a container runtime what it runs; cannot change anything (that is `acts`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Optional, TypeVar

from ostreewatchd.parse.cniconfig import loaded

from . import runtime_pb2 as pb
from .channel import MAX_ENTRIES, Client, check_id, line
from .errors import AnswerTooLarge, AnswerUnclear
from .types import (
    ContainerState,
    ContainerStatus,
    RuntimeContainer,
    RuntimeStatus,
    Sandbox,
    Version,
)

# Enums of proto3 are open: what a newer runtime adds arrives as a bare number and is "unknown" here.
_STATES: Mapping[int, ContainerState] = {
    pb.CONTAINER_CREATED: "created",
    pb.CONTAINER_RUNNING: "running",
    pb.CONTAINER_EXITED: "exited",
}

_MAX_WHY = 400

Entry = TypeVar("Entry")


class Runtime(Client):
    """The reading half of a runtime's CRI.

    Use it in a `with`, and briefly: an open connection costs wake-ups. Each method is one call within the
    deadline and raises `RuntimeUnavailable`, `RuntimeSilent`, `RuntimeRefused`, `AnswerTooLarge` or
    `AnswerUnclear`; ValueError once closed.
    """

    def version(self) -> Version:
        """Who answers; the cheapest question, so a sign of life too."""
        answer = self._channel.call("Version", pb.VersionRequest(version="v1"), pb.VersionResponse)
        return Version(runtime=answer.runtime_name, version=answer.runtime_version, api=answer.runtime_api_version)

    def status(self) -> RuntimeStatus:
        """Its conditions and the handlers that it shows. Its free-form `info`, which may hold secrets, is not asked
        for."""
        answer = self._channel.call("Status", pb.StatusRequest(), pb.StatusResponse)
        conditions = {one.type: one for one in self._bounded("Status", answer.status.conditions)}
        runtime, network = (conditions.get(name) for name in ("RuntimeReady", "NetworkReady"))
        bad = [one for one in (runtime, network) if one is not None and not one.status]
        return RuntimeStatus(
            runtime_ready=None if runtime is None else runtime.status,
            network_ready=None if network is None else network.status,
            why=line("; ".join(f"{one.type}: {one.reason}: {one.message}" for one in bad), _MAX_WHY),
            handlers=tuple(one.name for one in self._bounded("Status", answer.runtime_handlers)),
        )

    def cni_networks(self) -> Optional[tuple[str, ...]]:
        """The CNI networks that it has loaded; None: it does not say (CRI-O). Of all else in its free-form `info`,
        which may hold secrets, nothing is read."""
        answer = self._channel.call("Status", pb.StatusRequest(verbose=True), pb.StatusResponse)
        return loaded(answer.info["cniconfig"]) if "cniconfig" in answer.info else None

    def configuration(self) -> str:
        """What containerd has made of its configuration files at its start, as JSON; empty: the runtime does not say.
        It may hold secrets (a registry's password): it is to be compared, and never kept."""
        answer = self._channel.call("Status", pb.StatusRequest(verbose=True), pb.StatusResponse)
        return str(answer.info["config"]) if "config" in answer.info else ""

    def sandboxes(self) -> tuple[Sandbox, ...]:
        """All sandboxes, also those that are not ready, in the runtime's order."""
        answer = self._channel.call("ListPodSandbox", pb.ListPodSandboxRequest(), pb.ListPodSandboxResponse)
        return tuple(_sandbox(each) for each in self._bounded("ListPodSandbox", answer.items))

    def containers(self) -> tuple[RuntimeContainer, ...]:
        """All containers, also those that have exited, in the runtime's order."""
        answer = self._channel.call("ListContainers", pb.ListContainersRequest(), pb.ListContainersResponse)
        return tuple(_container(each) for each in self._bounded("ListContainers", answer.containers))

    def container_status(self, id: str) -> ContainerStatus:
        """One container by its full id. Its free-form `info`, which may hold secrets, is never asked for.

        Raises NotFound if the runtime does not know it, and BadId if the id is no full one.
        """
        request = pb.ContainerStatusRequest(container_id=check_id("container", id))
        answer = self._channel.call("ContainerStatus", request, pb.ContainerStatusResponse)
        if answer.status.id != id:
            raise AnswerUnclear(
                f"the runtime at {self._channel.socket}, asked for container {id}, told of another",
                "this is a fault of the runtime: see its journal",
            )
        return _status(answer.status)

    def _bounded(self, verb: str, entries: Sequence[Entry]) -> Sequence[Entry]:
        if len(entries) > MAX_ENTRIES:
            raise AnswerTooLarge(
                f"the answer of {self._channel.socket} to {verb} has {len(entries)} entries, above {MAX_ENTRIES}",
                "remove exited containers and old sandboxes (kubelet's garbage collection)",
            )
        return entries


def _sandbox(each: pb.PodSandbox) -> Sandbox:
    return Sandbox(
        id=each.id,
        name=each.metadata.name,
        namespace=each.metadata.namespace,
        uid=each.metadata.uid,
        ready=each.state == pb.SANDBOX_READY,
        created_ns=each.created_at,
        labels=dict(each.labels),
        annotations=dict(each.annotations),
        handler=each.runtime_handler,
    )


def _container(each: pb.Container) -> RuntimeContainer:
    return RuntimeContainer(
        id=each.id,
        sandbox_id=each.pod_sandbox_id,
        name=each.metadata.name,
        attempt=each.metadata.attempt,
        state=_STATES.get(each.state, "unknown"),
        created_ns=each.created_at,
    )


def _status(status: pb.ContainerStatus) -> ContainerStatus:
    finished = _time(status.finished_at)
    return ContainerStatus(
        id=status.id,
        name=status.metadata.name,
        attempt=status.metadata.attempt,
        state=_STATES.get(status.state, "unknown"),
        created_ns=status.created_at,
        started_ns=_time(status.started_at),
        finished_ns=finished,
        exit_code=None if finished is None else status.exit_code,
    )


def _time(nanoseconds: int) -> Optional[int]:
    # containerd sends 0 for "not yet"; a runtime that converts Go's zero time sends the year 1.
    return nanoseconds if nanoseconds > 0 else None

# SPDX-License-Identifier: Apache-2.0
"""A container runtime in this process: speaks CRI over a real unix socket and behaves like containerd 1.6.

Where it was read: containerd v1.6.20 and v1.7.27, pkg/cri/server/container_stop.go and pkg/cri/store.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional
from urllib.parse import quote

# As in channel.py, for tests that load this first: it must be set before grpc is loaded.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc
from google.protobuf.message import Message

from ostreewatchd.peers.cri import runtime_pb2 as pb

StatusCode = grpc.StatusCode

Fault = Callable[[Any], bytes]
"""Takes the call's context and answers in place of the runtime."""


def full_id(number: int) -> str:
    """An id of the form that real runtimes use."""
    return f"{number:064x}"


@dataclass(frozen=True)
class Call:
    """One call as the server saw it; `seconds` is the time that the client gave it."""

    verb: str
    request: Any
    seconds: Optional[float]


@dataclass
class Box:
    """A container of the fake with all that the verbs show of it."""

    status: pb.ContainerStatus
    sandbox_id: str


class FakeRuntime:
    """Start it by `with`; put `faults` in by verb; look at `calls` afterwards."""

    def __init__(self, socket: Path, *, gone_is_stopped: bool = False) -> None:
        """`gone_is_stopped`: answer a stop of an unknown container as containerd 1.7 does."""
        self.socket = socket
        self.gone_is_stopped = gone_is_stopped
        self.sandboxes: dict[str, pb.PodSandbox] = {}
        self.containers: dict[str, Box] = {}
        self.faults: dict[str, Fault] = {}
        self.info: dict[str, str] = {}
        """What Status adds where it is asked to be verbose."""
        self.calls: list[Call] = []
        self.conditions = {"RuntimeReady": True, "NetworkReady": True}
        self.handlers: list[str] = []
        self.released = threading.Event()
        self._server: Any = None

    def __enter__(self) -> FakeRuntime:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Listens; also again after `stop`."""
        self.released.clear()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=16),
            handlers=[_Handler(self)],
            options=[("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0)],
        )
        self._server.add_insecure_port("unix:" + quote(str(self.socket)))
        self._server.start()

    def stop(self) -> None:
        """Ends at once, calls that are under way included; the socket's file may stay, as a crash leaves it."""
        ended = self._server.stop(0)
        self.released.set()
        ended.wait(5)

    def sandbox(self, number: int, *, name: str = "pod", state: int = pb.SANDBOX_READY, **more: Any) -> str:
        """Adds a sandbox and returns its id."""
        id = full_id(number)
        self.sandboxes[id] = pb.PodSandbox(
            id=id,
            metadata=pb.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="kube-system"),
            **more,
        )
        # Set apart: the constructor refuses what the enum does not know, the wire does not.
        self.sandboxes[id].state = state  # type: ignore[assignment]
        return id

    def container(
        self, number: int, sandbox_id: str, *, name: str = "app", state: int = pb.CONTAINER_RUNNING, **more: Any
    ) -> str:
        """Adds a container and returns its id."""
        id = full_id(number)
        status = pb.ContainerStatus(
            id=id,
            metadata=pb.ContainerMetadata(name=name, attempt=0),
            created_at=1_700_000_000_000_000_001,
            started_at=0 if state == pb.CONTAINER_CREATED else 1_700_000_000_000_000_002,
            **more,
        )
        status.state = state  # type: ignore[assignment]
        self.containers[id] = Box(status, sandbox_id)
        return id

    def silence(self, context: Any) -> bytes:
        """A fault: takes the call and never answers it."""
        ends = time.monotonic() + 60
        self.released.wait(60)
        # Not even at the end: the thread may go only when nobody can hear its answer any more.
        while context.is_active() and time.monotonic() < ends:
            time.sleep(0.01)
        return b""

    def serve(self, verb: str, data: bytes, context: Any) -> bytes:
        """One call, in one of the server's threads."""
        request = getattr(pb, f"{verb}Request").FromString(data)
        self.calls.append(Call(verb, request, context.time_remaining()))
        fault = self.faults.get(verb)
        if fault is not None:
            return fault(context)
        answer: Message = getattr(self, f"_{verb}")(request, context)
        return answer.SerializeToString()

    def _Version(self, request: Any, context: Any) -> Message:
        return pb.VersionResponse(
            version="0.1.0", runtime_name="fake", runtime_version="1.6.20", runtime_api_version="v1"
        )

    def _Status(self, request: Any, context: Any) -> Message:
        answer = pb.StatusResponse()
        for name, status in self.conditions.items():
            why = ("", "") if status else ("NetworkPluginNotReady", "cni plugin not initialized")
            answer.status.conditions.add(type=name, status=status, reason=why[0], message=why[1])
        for handler in self.handlers:
            answer.runtime_handlers.add(name=handler)
        if request.verbose:
            answer.info.update(self.info)
        return answer

    def _ListPodSandbox(self, request: Any, context: Any) -> Message:
        return pb.ListPodSandboxResponse(items=self.sandboxes.values())

    def _ListContainers(self, request: Any, context: Any) -> Message:
        answer = pb.ListContainersResponse()
        for box in self.containers.values():
            answer.containers.add(
                id=box.status.id,
                pod_sandbox_id=box.sandbox_id,
                metadata=box.status.metadata,
                created_at=box.status.created_at,
            ).state = box.status.state
        return answer

    def _ContainerStatus(self, request: Any, context: Any) -> Message:
        box = self._find(self.containers, request.container_id)
        if box is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f'container "{request.container_id}": not found')
        return pb.ContainerStatusResponse(status=box.status)

    def _StopContainer(self, request: Any, context: Any) -> Message:
        box = self._find(self.containers, request.container_id)
        if box is None and not self.gone_is_stopped:
            context.abort(grpc.StatusCode.NOT_FOUND, f'container "{request.container_id}": not found')
        if box is not None and box.status.state == pb.CONTAINER_RUNNING:
            self._end(box, 143 if request.timeout else 137)
        return pb.StopContainerResponse()

    def _StopPodSandbox(self, request: Any, context: Any) -> Message:
        sandbox = self._find(self.sandboxes, request.pod_sandbox_id)
        if sandbox is not None:
            sandbox.state = pb.SANDBOX_NOTREADY
            for box in self.containers.values():
                if box.sandbox_id == sandbox.id and box.status.state == pb.CONTAINER_RUNNING:
                    self._end(box, 137)
        return pb.StopPodSandboxResponse()

    @staticmethod
    def _end(box: Box, exit_code: int) -> None:
        box.status.state = pb.CONTAINER_EXITED
        box.status.finished_at = time.time_ns()
        box.status.exit_code = exit_code

    @staticmethod
    def _find(things: dict[str, Any], prefix: str) -> Any:
        # Any unambiguous prefix will do, as in containerd: that is why the client insists on full ids.
        found = [thing for id, thing in things.items() if prefix and id.startswith(prefix)]
        return found[0] if len(found) == 1 else None


class _Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, fake: FakeRuntime) -> None:
        self._fake = fake

    def service(self, details: Any) -> Any:
        service, verb = details.method.rsplit("/", 1)
        if service != "/runtime.v1.RuntimeService" or not hasattr(pb, f"{verb}Request"):
            return None
        return grpc.unary_unary_rpc_method_handler(lambda data, context: self._fake.serve(verb, data, context))


def refuse(code: Any, details: str) -> Fault:
    """A fault: this gRPC status."""

    def fault(context: Any) -> bytes:
        context.abort(code, details)
        raise AssertionError("abort raises")

    return fault


def raw(data: bytes) -> Fault:
    """A fault: these bytes as the answer."""
    return lambda context: data

# SPDX-License-Identifier: Apache-2.0
"""CRI: each call goes to the containerd behind, and what CRI-O does or says otherwise is changed on its way.

Sources: cri-o server/runtime_status.go, server/sandbox_run.go, server/container_stop.go, cri-o#10202."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any, Callable, Optional

# As in the product's client: it must be set before grpc is loaded.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc

from . import settings, wire
from .network import Network
from .settings import Config
from .storage import Box, Memory, replace

RUNTIME, IMAGES = "/runtime.v1.RuntimeService/", "/runtime.v1.ImageService/"
_NODE = 2  # NamespaceMode
_RUNNING, _EXITED = 1, 2  # ContainerState
_ON_CONTAINER = ("StopContainer", "RemoveContainer", "ExecSync", "Exec", "Attach")
_ON_SANDBOX = ("StopPodSandbox", "RemovePodSandbox")


class Verbs(grpc.GenericRpcHandler):  # type: ignore[misc]
    """`shown` is what a reload replaces; what is served stays what it was at the start (cri-o server/server.go keeps
    a copy by value, pkg/config/reload.go replaces the map of handlers in it; cri-o#10202)."""

    def __init__(self, behind: str, version: str, served: Config, memory: Memory, network: Network) -> None:
        self.shown = served
        self._version = version
        runtime = settings.runtime(served)
        self._served = {name: 0xC000100000 + 0x1000 * at for at, name in enumerate(sorted(runtime["runtimes"]))}
        self._default = str(runtime["default_runtime"])
        self._memory = memory
        self._bundles = Path(served["crio"]["runroot"], "overlay-containers")
        self._network = network
        self._no_address: set[str] = set()
        self._lock = threading.Lock()
        self._channel = grpc.insecure_channel(
            f"unix:{behind}",
            options=[("grpc.max_receive_message_length", -1), ("grpc.default_authority", "localhost")],
        )

    # -- what the daemon needs itself -------------------------------------------------------------------------

    def ask(self, verb: str, request: bytes = b"", timeout: Optional[float] = 30.0, service: str = RUNTIME) -> bytes:
        """Of the containerd behind. Raises grpc.RpcError."""
        answer: bytes = self._channel.unary_unary(service + verb)(request, timeout=timeout)
        return answer

    def sandboxes(self) -> list[str]:
        return [wire.text(each, 1) for each in wire.messages(self.ask("ListPodSandbox"), 1)]

    def containers(self) -> dict[str, str]:
        """Sandbox, by container."""
        return {wire.text(each, 1): wire.text(each, 2) for each in wire.messages(self.ask("ListContainers"), 1)}

    def restore(self, warn: Callable[[str], None]) -> None:
        """What a start finds. Measured: where the network of a sandbox is missing or has another name its address is
        lost until the next start; where its handler is gone the start succeeds, with a warning."""
        for id, box in self._memory.sandboxes.items():
            if box.network and box.network not in self._network.names:
                warn(f"Could not restore sandbox IP for {id}: no CNI network {box.network}")
                self._no_address.add(id)
        for id in self._memory.containers:
            missing = self._unserved(id)
            if missing:
                warn(f"Error updating the container status {id}: {self._not_found(missing)}")

    # -- the service ------------------------------------------------------------------------------------------

    def service(self, details: Any) -> Any:
        return grpc.unary_unary_rpc_method_handler(lambda data, context: self._serve(details.method, data, context))

    def _serve(self, method: str, data: bytes, context: Any) -> bytes:
        service, _, verb = method.rpartition("/")
        own: Optional[Callable[[bytes, Any], bytes]] = getattr(self, f"_{verb}", None)
        if f"{service}/" == RUNTIME:
            self._refuse(verb, data, context)
            if own is not None:
                return own(data, context)
        return self._pass(verb, data, context, f"{service}/")

    def _pass(self, verb: str, data: bytes, context: Any, service: str = RUNTIME) -> bytes:
        try:
            return self.ask(verb, data, context.time_remaining(), service)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
            raise AssertionError("abort raises") from error

    def _refuse(self, verb: str, data: bytes, context: Any) -> None:
        """Measured: what runs by a handler that is not served any more cannot be stopped, removed or entered."""
        if verb not in (*_ON_CONTAINER, *_ON_SANDBOX):
            return
        id = wire.text(data, 1)
        missing = self._unserved(id)
        if missing:
            context.abort(grpc.StatusCode.UNKNOWN, self._not_found(missing))

    def _Version(self, data: bytes, context: Any) -> bytes:
        self._pass("Version", data, context)
        return b"".join(wire.field(at, text) for at, text in enumerate(("0.1.0", "cri-o", self._version, "v1"), 1))

    def _Status(self, data: bytes, context: Any) -> bytes:
        """RuntimeReady is always true. The handlers are those that are *shown*, and the default one once more without
        a name (cri-o#7765)."""
        runtime_ready = wire.field(1, "RuntimeReady") + wire.field(2, 1)
        network_ready = wire.field(1, "NetworkReady") + wire.field(2, int(self._network.ready))
        if not self._network.ready:
            network_ready += wire.field(3, "NetworkPluginNotReady")
            network_ready += wire.field(4, f"Network plugin returns error: {self._network.missing()}")
        answer = wire.field(1, wire.field(1, runtime_ready) + wire.field(1, network_ready))
        runtime = settings.runtime(self.shown)
        if wire.number(data, 1):
            answer += wire.field(2, wire.field(1, "config") + wire.field(2, settings.to_toml(self.shown)))
        for name in runtime["runtimes"]:
            for shown in (name, "") if name == runtime["default_runtime"] else (name,):
                answer += wire.field(3, wire.field(1, shown) + wire.field(2, b""))
        return answer

    def _RunPodSandbox(self, data: bytes, context: Any) -> bytes:
        config, handler = wire.message(data, 1), wire.text(data, 2)
        metadata = wire.message(config, 1)
        key = "_".join([*(wire.text(metadata, part) for part in (1, 3, 2)), str(wire.number(metadata, 4))])
        there = self._there(key)
        if there:
            # Measured: it answers the id of one that exists, whatever the handler.
            return wire.field(1, there)
        if handler and handler not in self._served:
            context.abort(grpc.StatusCode.UNKNOWN, self._not_found(handler))
        options = wire.message(wire.message(wire.message(config, 8), 2), 1)
        on_host = wire.number(options, 1) == _NODE
        if not on_host and self._network.missing():
            context.abort(grpc.StatusCode.UNKNOWN, self._network.missing())
        network = "" if on_host else self._network.default
        answer = self._pass("RunPodSandbox", wire.replaced(data, 2), context)
        with self._lock:
            self._memory.sandboxes[wire.text(answer, 1)] = Box(key, handler or self._default, network)
            self._memory.write()
        self._bundle(wire.text(answer, 1), handler, metadata)
        return answer

    def _RemovePodSandbox(self, data: bytes, context: Any) -> bytes:
        answer = self._pass("RemovePodSandbox", data, context)
        shutil.rmtree(self._bundles / wire.text(data, 1), ignore_errors=True)
        return answer

    def _CreateContainer(self, data: bytes, context: Any) -> bytes:
        answer = self._pass("CreateContainer", data, context)
        with self._lock:
            self._memory.containers[wire.text(answer, 1)] = wire.text(data, 1)
            self._memory.write()
        return answer

    def _StopContainer(self, data: bytes, context: Any) -> bytes:
        """It is idempotent: one that is not known is one that has stopped."""
        try:
            return self.ask("StopContainer", data, context.time_remaining())
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.NOT_FOUND:
                context.abort(error.code(), error.details())
            return b""

    def _ListPodSandbox(self, data: bytes, context: Any) -> bytes:
        answer = self._pass("ListPodSandbox", data, context)
        return wire.replaced(answer, 1, *(one for one in wire.messages(answer, 1) if self._is_known(one)))

    def _ListContainers(self, data: bytes, context: Any) -> bytes:
        answer = self._pass("ListContainers", data, context)
        known = [one for one in wire.messages(answer, 1) if self._is_known(one)]
        return wire.replaced(answer, 1, *(self._unmanaged(one, state=6) for one in known))

    def _PodSandboxStatus(self, data: bytes, context: Any) -> bytes:
        self._must_know(data, context)
        answer = self._pass("PodSandboxStatus", data, context)
        if wire.text(data, 1) in self._no_address:
            answer = wire.replaced(answer, 1, wire.replaced(wire.message(answer, 1), 5))
        return answer

    def _ContainerStatus(self, data: bytes, context: Any) -> bytes:
        self._must_know(data, context)
        answer = self._pass("ContainerStatus", data, context)
        return wire.replaced(answer, 1, self._unmanaged(wire.message(answer, 1), state=3))

    # -- beside -----------------------------------------------------------------------------------------------

    def _there(self, key: str) -> str:
        known = {box.key: id for id, box in list(self._memory.sandboxes.items()) if id not in self._memory.forgotten}
        return known[key] if known.get(key) in self.sandboxes() else ""

    def _bundle(self, id: str, handler: str, metadata: bytes) -> None:
        """As much of <runroot>/overlay-containers/<id>/userdata/config.json as tells whose it is (measured: crictl
        lists such pods without their handler, and the annotation has it)."""
        notes = {
            "io.kubernetes.cri-o.ContainerType": "sandbox",
            "io.kubernetes.cri-o.SandboxID": id,
            "io.kubernetes.cri-o.RuntimeHandler": handler,
            "io.kubernetes.pod.name": wire.text(metadata, 1),
            "io.kubernetes.pod.namespace": wire.text(metadata, 3),
            "io.kubernetes.pod.uid": wire.text(metadata, 2),
        }
        replace(self._bundles / id / "userdata/config.json", json.dumps({"annotations": notes, "mounts": []}))

    def _is_known(self, one: bytes) -> bool:
        return wire.text(one, 1) not in self._memory.forgotten

    def _must_know(self, data: bytes, context: Any) -> None:
        if not self._is_known(data):
            context.abort(grpc.StatusCode.NOT_FOUND, f'could not find "{wire.text(data, 1)}": ID does not exist')

    def _unserved(self, id: str) -> str:
        """The handler of a container or a sandbox, if it is not served; empty otherwise."""
        box = self._memory.sandboxes.get(self._memory.containers.get(id, id))
        return box.handler if box is not None and box.handler not in self._served else ""

    def _unmanaged(self, one: bytes, *, state: int) -> bytes:
        """Measured: it stays "Running" after its process was killed."""
        ended = wire.number(one, state) == _EXITED and self._unserved(wire.text(one, 1))
        return wire.replaced(one, state, _RUNNING) if ended else one

    def _not_found(self, handler: str) -> str:
        shown = " ".join(f"{name}:{address:#x}" for name, address in self._served.items())
        return f"failed to find runtime handler {handler} from runtime list map[{shown}]"

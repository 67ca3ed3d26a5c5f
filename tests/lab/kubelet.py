# SPDX-License-Identifier: Apache-2.0
"""A node's kubelet, asked over its own API from inside the node's network namespace."""

import http.client
import json
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Any, Optional

from tests.lab import kernel
from tests.lab.errors import NodeFailed

PORT = 10250


@dataclass(frozen=True)
class ContainerStatus:
    """kubelet's own numbers about a container."""

    name: str
    id: str  # without the runtime's scheme; empty before the first start
    restarts: int
    ready: bool
    running: bool
    started_at: str
    exit_code: Optional[int]  # of this instance, when it has ended


@dataclass(frozen=True)
class PodStatus:
    """kubelet's own numbers about a pod."""

    name: str
    namespace: str
    uid: str
    phase: str
    containers: dict[str, ContainerStatus]

    def running(self) -> bool:
        return self.phase == "Running" and all(one.running for one in self.containers.values())


def pods(leader: int) -> list[dict[str, Any]]:
    """All pods that kubelet knows, as its API gives them."""
    status, body = get(leader, "/pods")
    if status != 200:
        raise NodeFailed(f"kubelet answers {status} to /pods: {body[:200]!r}")
    return list(json.loads(body).get("items") or [])


def get(leader: int, path: str) -> tuple[int, bytes]:
    """GET over HTTPS from a node's loopback; kubelet's certificate is its own."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with connected(leader, PORT) as plain, context.wrap_socket(plain) as secured:
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
        connection.sock = secured
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def connected(leader: int, port: int) -> socket.socket:
    """A connection to a port of a node's loopback. A socket belongs to the namespace that it was made in: a thread
    makes it there and ends."""
    made: list[socket.socket] = []
    errors: list[OSError] = []

    def work() -> None:
        try:
            kernel.enter_network(f"/proc/{leader}/ns/net")
            made.append(socket.create_connection(("127.0.0.1", port), timeout=5))
        except OSError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(timeout=10)
    if made:
        return made[0]
    raise errors[0] if errors else TimeoutError(f"no connection to port {port} within 10 s")


def parse_pod(pod: dict[str, Any]) -> PodStatus:
    """The part of a pod's JSON that tests ask for."""
    status = pod.get("status", {})
    found = {}
    for one in status.get("containerStatuses") or []:
        state = one.get("state", {})
        ended = state.get("terminated", {})
        found[one["name"]] = ContainerStatus(
            name=one["name"],
            id=one.get("containerID", "").rpartition("/")[2],
            restarts=one.get("restartCount", 0),
            ready=one.get("ready", False),
            running="running" in state,
            started_at=state.get("running", ended).get("startedAt", ""),
            exit_code=ended.get("exitCode"),
        )
    meta = pod["metadata"]
    return PodStatus(meta["name"], meta["namespace"], meta["uid"], status.get("phase", ""), found)

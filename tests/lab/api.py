# SPDX-License-Identifier: Apache-2.0
"""A node's API server, asked as its administrator from inside the node's network namespace."""

import http.client
import json
import ssl
from pathlib import Path
from typing import Any, Optional

from tests.lab.errors import NodeFailed
from tests.lab.kubelet import connected
from tests.lab.node import Node

PORT = 6443
CORE = "/api/v1"
Object = dict[str, Any]


class ApiRefused(NodeFailed):
    """The API server answered with an error."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Verbs on paths as the API server has them."""

    def __init__(self, node: Node, authority: Path, token: str) -> None:
        self._node = node
        self._context = ssl.create_default_context(cafile=str(authority))
        self._token = token

    def call(self, verb: str, path: str, body: Optional[Object] = None, token: Optional[str] = None) -> Object:
        """The answer's object. Raises ApiRefused with the status that it came with; `token`: as somebody else."""
        headers = {"Authorization": f"Bearer {token or self._token}", "Content-Type": "application/json"}
        with connected(self._node.leader, PORT) as plain:
            with self._context.wrap_socket(plain, server_hostname="127.0.0.1") as secured:
                connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
                connection.sock = secured
                try:
                    connection.request(verb, path, json.dumps(body) if body is not None else None, headers)
                    answer = connection.getresponse()
                    status, data = answer.status, answer.read()
                finally:
                    connection.close()
        found: Object = json.loads(data)
        if status >= 400:
            raise ApiRefused(f"{verb} {path}: {status} {found.get('message')}", status)
        return found

    def get(self, path: str) -> Object:
        return self.call("GET", path)

    def items(self, path: str) -> list[Object]:
        return list(self.get(path)["items"] or [])

    def create(self, path: str, body: Object) -> Object:
        return self.call("POST", path, body)

    def delete(self, path: str) -> None:
        """At once: nothing waits for what the object's owner would like to do before."""
        self.call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})

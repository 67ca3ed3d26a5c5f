# SPDX-License-Identifier: Apache-2.0
"""CRI-O's one socket: it accepts before anybody serves, and tells gRPC from HTTP by the first bytes.

Sources: cri-o cmd/crio/main.go (listen first, cmux), server/inspect.go. Measured: a socket that accepts proves
nothing: it does so before restore and wipe. `GET /pause/{id}` and `/unpause/{id}` change something: whoever crawls
these pages leaves a mark that fails the test."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from pathlib import Path
from typing import Callable

from . import settings, wire
from .verbs import Verbs

_PREFACE = b"PRI * HTTP/2.0"
_MOST = 8192


def listen(path: str) -> socket.socket:
    """From here on connect() succeeds; nothing is read. The stale socket of a killed one is taken away."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    os.chmod(path, 0o660)
    listener.listen(128)
    return listener


class Front:
    """`inner`: the abstract name at which gRPC is served."""

    def __init__(self, listener: socket.socket, inner: str, verbs: Verbs, mark: Callable[[str], None]) -> None:
        self._listener = listener
        self._inner = inner
        self._verbs = verbs
        self._mark = mark

    def serve(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # It was closed: the end.
            threading.Thread(target=self._sort, args=(connection,), daemon=True).start()

    def _sort(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            first = connection.recv(len(_PREFACE))
            if not _PREFACE.startswith(first[:3]) or not first:
                self._http(connection, first)
                return
            with socket.socket(socket.AF_UNIX) as inner:
                inner.connect(f"\0{self._inner}")
                inner.sendall(first)
                back = threading.Thread(target=_pump, args=(inner, connection), daemon=True)
                back.start()
                _pump(connection, inner)
                back.join()

    def _http(self, connection: socket.socket, data: bytes) -> None:
        while data and b"\r\n\r\n" not in data and len(data) < _MOST:
            more = connection.recv(_MOST)
            if not more:
                return
            data += more
        path = data.split(b" ", 2)[1].decode("ascii", "replace") if data.count(b" ") >= 2 else "/"
        status, kind, body = self._page(path)
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)

    def _page(self, path: str) -> tuple[str, str, bytes]:
        shown = self._verbs.shown
        if path == "/config":
            return "200 OK", "application/toml", settings.to_toml(shown).encode()
        if path == "/info":
            # No handlers at all are in it.
            info = {
                "storage_driver": shown["crio"]["storage_driver"],
                "storage_image": "",
                "storage_root": shown["crio"]["root"],
                "cgroup_driver": settings.runtime(shown)["cgroup_manager"],
                "default_id_mappings": {"uids": [], "gids": []},
            }
            return "200 OK", "application/json", json.dumps(info).encode()
        if path.startswith(("/pause/", "/unpause/")):
            self._mark("somebody-paused-a-container")
            return "200 OK", "text/plain", b"200 OK"
        if path.startswith("/containers/"):
            return self._container(path.rpartition("/")[2])
        return "404 Not Found", "text/plain", b"404 page not found\n"

    def _container(self, id: str) -> tuple[str, str, bytes]:
        for one in wire.messages(self._verbs.ask("ListContainers"), 1):
            if wire.text(one, 1) == id:
                shown = {"name": wire.text(wire.message(one, 3), 1), "pid": 0, "created_time": wire.number(one, 7)}
                return "200 OK", "application/json", json.dumps(shown).encode()
        return "404 Not Found", "text/plain", f"can't find the container with id {id}\n".encode()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            data = source.recv(65536)
            if not data:
                break
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)

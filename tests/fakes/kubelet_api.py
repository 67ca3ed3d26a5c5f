# SPDX-License-Identifier: Apache-2.0
"""Kubelet's API on a loopback port, over TLS: answers by path what a test puts in, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Union

Answer = Union[bytes, Callable[["ssl.SSLSocket"], None]]
"""The whole of it, head included; or what is done with the connection."""


def http(body: bytes, status: int = 200, length: int = -1) -> bytes:
    """An answer as Go's server gives it to HTTP/1.0. `length`: another one than it has."""
    said = len(body) if length < 0 else length
    return b"HTTP/1.0 %d Any\r\nContent-Length: %d\r\nContent-Type: a/b\r\n\r\n%s" % (status, said, body)


class FakeKubeletApi:
    """Use it in a `with`. `authority`: whose client certificates it insists on."""

    def __init__(self, certificate: Path, key: Path, authority: Path | None = None) -> None:
        self.answers: dict[str, Answer] = {}
        self.heads: list[str] = []
        """What came, up to the blank line, of each connection on which something came."""
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        if authority is not None:
            self._context.verify_mode = ssl.CERT_REQUIRED
            self._context.load_verify_locations(authority)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> FakeKubeletApi:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # A close alone does not end an accept that waits.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            with plain, contextlib.suppress(OSError):
                plain.settimeout(10)
                with self._context.wrap_socket(plain, server_side=True) as secured:
                    self._answer(secured)

    def _answer(self, secured: ssl.SSLSocket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            chunk = secured.recv(4096)
            if not chunk:
                return
            head += chunk
        text = head.decode()
        self.heads.append(text)
        answer = self.answers.get(text.split()[1], http(b"no", 404))
        if callable(answer):
            answer(secured)
        else:
            secured.sendall(answer)

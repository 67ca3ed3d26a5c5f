# SPDX-License-Identifier: Apache-2.0
"""A journal's native socket that keeps what it gets, read back by the protocol's own rules."""

from __future__ import annotations

import socket
import struct
from pathlib import Path


class FakeJournal:
    """Listens at `path`; closed by `with`."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.setblocking(False)

    def __enter__(self) -> FakeJournal:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def entries(self) -> list[dict[str, bytes]]:
        """What has arrived since the last call."""
        found = []
        while True:
            try:
                found.append(decode(self._socket.recv(1 << 20)))
            except BlockingIOError:
                return found


def decode(data: bytes) -> dict[str, bytes]:
    """One datagram (Native Journal Protocol): `NAME=value` or `NAME`, length as 64 bit little endian, value."""
    entry = {}
    while data:
        line, _, rest = data.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if equals:
            entry[name.decode("ascii")], data = value, rest
        else:
            (length,) = struct.unpack_from("<Q", rest)
            entry[name.decode("ascii")] = rest[8 : 8 + length]
            assert rest[8 + length : 9 + length] == b"\n"
            data = rest[9 + length :]
    return entry

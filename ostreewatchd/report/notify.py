# SPDX-License-Identifier: Apache-2.0
"""Tells systemd how the program is: READY, STATUS, WATCHDOG.

Source: sd_notify(3), sd_watchdog_enabled(3)."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Optional


class Notifier:
    """The notification socket, or nothing where systemd gave none. Never blocks and never fails: a message
    that does not fit is one that the next one makes good."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket: Optional[socket.socket] = None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
        self.watchdog = _watchdog_seconds(environment)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def ready(self) -> None:
        self._send("READY=1")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        self._send("STATUS=" + text.replace("\n", " ")[:500])

    def alive(self) -> None:
        """Feed the watchdog. To be called by the loop that does the work, and by nothing else."""
        self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendto(text.encode("utf-8", "replace"), self._address)
        except OSError:
            return


def _watchdog_seconds(environment: Mapping[str, str]) -> Optional[float]:
    """Half of the time after which systemd would kill; None without a watchdog for this process."""
    if environment.get("WATCHDOG_PID") not in (None, str(os.getpid())):
        return None
    try:
        return int(environment["WATCHDOG_USEC"]) / 2e6
    except (KeyError, ValueError):
        return None

# SPDX-License-Identifier: Apache-2.0
"""A filesystem that never answers: FUSE whose server reads no request. To look anything up in it hangs until somebody
kills who asked, or closes the server's descriptor."""

from __future__ import annotations

import os
import signal
import time

from tests.host.fakehost import mount


def can_be_made() -> bool:
    return os.path.exists("/dev/fuse")


class DeadFilesystem:
    """Opens its device at once: mount it wherever and whenever that is wanted, also after a chroot."""

    def __init__(self) -> None:
        self._fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)

    def mount(self, target: str) -> None:
        mount("dead", target, "fuse", 0, f"fd={self._fd},rootmode=40000,user_id=0,group_id=0")

    def close(self) -> None:
        """Whoever waits gets ENOTCONN."""
        os.close(self._fd)


def hangs(path: str) -> bool:
    """Whether a process that looks the path up still waits after a third of a second."""
    pid = os.fork()
    if pid == 0:
        try:
            os.stat(path)
        finally:
            os._exit(0)
    until = time.monotonic() + 0.35
    while time.monotonic() < until:
        if os.waitpid(pid, os.WNOHANG) != (0, 0):
            return False
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True

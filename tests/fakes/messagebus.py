# SPDX-License-Identifier: Apache-2.0
"""A real dbus-daemon of a test's own, which would start an rpm-ostree that nobody may start."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

NAME = "org.projectatomic.rpmostree1"
SYSTEMD = "org.freedesktop.systemd1"
_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:path={socket}</listen>
  <auth>EXTERNAL</auth>
  {services}
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""


class MessageBus:
    """The daemon. Used in a `with`; it can be stopped and started anew at the same path."""

    def __init__(self, folder: Path, *, with_rpm_ostree: bool = True) -> None:
        self.socket = folder / "system_bus_socket"
        self._activated = folder / "somebody-started-rpm-ostree"
        self._config = folder / "bus.conf"
        services = folder / "services"
        services.mkdir(exist_ok=True)
        if with_rpm_ostree:
            text = f"[D-BUS Service]\nName={NAME}\nExec=/usr/bin/touch {self._activated}\n"
            (services / f"{NAME}.service").write_text(text)
        self._config.write_text(
            _CONFIG.format(socket=self.socket, services=f"<servicedir>{services}</servicedir>"), encoding="utf-8"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> MessageBus:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        assert not self.was_activated(), "rpm-ostree was started"

    def start(self) -> None:
        self.socket.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            ["dbus-daemon", f"--config-file={self._config}", "--nofork", "--nopidfile", "--nosyslog"],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self.socket))
                return
            assert self._process.poll() is None and time.monotonic() < until, "the bus does not start"
            time.sleep(0.005)

    def stop(self) -> None:
        """As a crash: its connections end, and its socket's name stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def was_activated(self) -> bool:
        return os.path.exists(self._activated)

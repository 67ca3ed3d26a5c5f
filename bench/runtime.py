# SPDX-License-Identifier: Apache-2.0
"""A real containerd with one pod of a few containers, for `crictl inspect` to ask: the node's own containers are
processes without a runtime."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.build import BenchError
from ostreewatchd.peers.cri.errors import CriError
from tests.host.containerd import IMAGE, MISSING, Containerd, end
from tests.host.cri_creator import Creator

_CONTAINERS = 20
_WAITS = "trap 'exit 0' TERM; while :; do /bin/busybox sleep 1000000 & wait $!; done"
"""Costs nothing while other things are measured."""


class Runtime:
    """Made by `with`; nothing of it is left afterwards."""

    def __init__(self) -> None:
        if MISSING:
            raise BenchError(f"not installed: {', '.join(MISSING)}")
        self.ids: list[str] = []
        self.endpoint = ""

    def __enter__(self) -> Runtime:
        base = Path(tempfile.mkdtemp(prefix="ostreewatchd-bench-runtime-"))
        try:
            self._server = Containerd(base)
        except (OSError, RuntimeError) as error:
            raise BenchError(f"containerd: {error}") from error
        try:
            self._server.load_image(_WAITS)
            self._fill(base)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        end(self._server)

    def _fill(self, base: Path) -> None:
        self.endpoint = f"unix://{self._server.socket}"
        try:
            with Creator(self._server.socket, self._server.cgroup) as creator:
                sandbox = creator.sandbox("bench", "kube-bench", "uid-1")
                for number in range(_CONTAINERS):
                    made = creator.container(sandbox, f"c{number}", 0, IMAGE, base / "cni-net.d", "/host/net.d")
                    creator.start(made)
                    self.ids.append(made)
        except CriError as error:
            raise BenchError(f"containerd: {error}") from error

# SPDX-License-Identifier: Apache-2.0
"""The CRI client against a real containerd that runs a real sandbox and container, and against the stand-in for CRI-O
in front of one; nothing of it stays.

Needs root and the packages containerd, runc and busybox-static; no network, no image registry, no kubelet.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.cri.errors import BadId, NotFound, RuntimeRefused, RuntimeSilent
from ostreewatchd.peers.cri.types import Stopped
from tests.fakes.cri_server import full_id
from tests.host.containerd import IMAGE, MISSING, Containerd, end
from tests.host.cri_creator import Creator
from tests.host.crio import Crio

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]


needs_tomllib = pytest.mark.skipif(sys.version_info < (3, 11), reason="the stand-in reads TOML with Python's own")


@pytest.fixture(scope="module", params=["containerd", pytest.param("cri-o", marks=needs_tomllib)])
def containerd(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The runtime: either is asked in the same way."""
    server = Containerd(tmp_path_factory.mktemp("c"))
    try:
        if request.param == "containerd":
            yield server
            return
        crio = Crio(server)
        crio.start()
        try:
            yield crio
        finally:
            crio.close()
    finally:
        end(server)


def test_an_empty_runtime(containerd: Any) -> None:
    with Runtime.connect(containerd.socket, deadline=5) as runtime:
        version = runtime.version()
        assert (version.runtime, version.api) == ("cri-o" if isinstance(containerd, Crio) else "containerd", "v1")
        assert version.version
        assert (runtime.sandboxes(), runtime.containers()) == ((), ())
        with pytest.raises(NotFound):
            runtime.container_status(full_id(1))
    with RuntimeActs.connect(containerd.socket, deadline=5) as acts:
        major_minor = tuple(int(part) for part in version.version.lstrip("v").split("~")[0].split(".")[:2])
        assert acts.stop_container(full_id(1), 0) is (Stopped.GONE if major_minor < (1, 7) else Stopped.NOW)
        assert acts.stop_sandbox(full_id(1)) in (Stopped.GONE, Stopped.NOW)


def test_the_networks_that_it_has_loaded(containerd: Any) -> None:
    """By its watch, within moments. CRI-O does not tell."""
    directory = (containerd.behind if isinstance(containerd, Crio) else containerd).base / "cni-net.d"
    file = directory / "10-x.conflist"
    file.write_text('{"cniVersion": "0.3.1", "name": "mine", "plugins": [{"type": "loopback"}]}')
    try:
        with Runtime.connect(containerd.socket, deadline=5) as runtime:
            if isinstance(containerd, Crio):
                assert runtime.cni_networks() is None
                return
            for _ in range(100):
                found = runtime.cni_networks() or ()
                if "mine" in found:
                    break
                time.sleep(0.05)
            assert "mine" in found, found
    finally:
        file.unlink()


@pytest.fixture
def creator(containerd: Any) -> Iterator[Creator]:
    with Creator(containerd.socket, containerd.cgroup) as client:
        yield client


def test_a_real_pod(containerd: Any, creator: Creator) -> None:
    containerd.load_image()
    deadline = 20.0
    host_path = containerd.base / "cni-net.d"
    before = time.time_ns()
    sandbox = creator.sandbox("calico-node-x", "kube-system", "uid-1")
    first = creator.container(sandbox, "calico-node", 0, IMAGE, host_path, "/host/net.d")
    with Runtime.connect(containerd.socket, deadline=deadline) as runtime:
        assert runtime.containers()[0].state == "created"
        created = runtime.container_status(first)
        assert (created.state, created.started_ns, created.finished_ns) == ("created", None, None)
    creator.start(first)

    with Runtime.connect(containerd.socket, deadline=deadline) as runtime:
        (pod,) = runtime.sandboxes()
        assert (pod.id, pod.name, pod.namespace, pod.uid) == (sandbox, "calico-node-x", "kube-system", "uid-1")
        assert pod.ready
        assert pod.labels["io.kubernetes.pod.name"] == "calico-node-x"
        (seen,) = runtime.containers()
        assert (seen.id, seen.sandbox_id, seen.name, seen.attempt) == (first, sandbox, "calico-node", 0)
        assert seen.state == "running"
        status = runtime.container_status(first)
        assert status.started_ns is not None and status.started_ns >= status.created_ns >= before

    with RuntimeActs.connect(containerd.socket, deadline=deadline) as acts:
        # What the full id guards against: the runtime itself would take this for the container.
        with pytest.raises(BadId):
            acts.stop_container(first[:12], 0)
        began = time.monotonic()
        assert acts.stop_container(first, 10) is Stopped.NOW
        assert time.monotonic() - began < 8, "it exits on its signal, long before SIGKILL"
        assert acts.stop_container(first, 0) is Stopped.NOW
    with Runtime.connect(containerd.socket, deadline=deadline) as runtime:
        ended = runtime.container_status(first)
        assert (ended.state, ended.exit_code) == ("exited", 7)
        assert ended.finished_ns is not None and ended.finished_ns > status.started_ns

    second = creator.container(sandbox, "calico-node", 1, IMAGE, host_path, "/host/net.d")
    creator.start(second)
    # A restart of the runtime loses nothing, and the answers stay the same.
    containerd.restart()
    with Runtime.connect(containerd.socket, deadline=deadline) as runtime:
        states = {each.attempt: each.state for each in runtime.containers()}
        assert states == {0: "exited", 1: "running"}
    with RuntimeActs.connect(containerd.socket, deadline=deadline) as acts:
        assert acts.stop_container(second, 0) is Stopped.NOW
        assert acts.stop_sandbox(sandbox) is Stopped.NOW
    with Runtime.connect(containerd.socket, deadline=deadline) as runtime:
        assert runtime.container_status(second).exit_code == 137
        assert [each.ready for each in runtime.sandboxes()] == [False]


def test_a_frozen_containerd_is_silent(containerd: Any) -> None:
    containerd.process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        with Runtime.connect(containerd.socket, deadline=0.5) as runtime, pytest.raises(RuntimeSilent):
            runtime.version()
        assert time.monotonic() - began < 20
    finally:
        containerd.process.send_signal(signal.SIGCONT)


def test_containerd_without_cri(tmp_path: Path) -> None:
    server = Containerd(tmp_path, disabled='"io.containerd.grpc.v1.cri"')
    try:
        with Runtime.connect(server.socket, deadline=5) as runtime, pytest.raises(RuntimeRefused) as caught:
            runtime.version()
        assert "CRI plugin is disabled" in caught.value.hint
    finally:
        end(server)

# SPDX-License-Identifier: Apache-2.0
"""The CRI client against a real containerd that runs a real sandbox and container; nothing of it stays.

Needs root and the packages containerd, runc and busybox-static; no network, no image registry, no kubelet.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.cri.errors import BadId, CriError, NotFound, RuntimeRefused, RuntimeSilent
from ostreewatchd.peers.cri.types import Stopped
from tests.fakes.cri_server import full_id
from tests.host.cri_creator import Creator

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "busybox")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]

pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
]

IMAGE = "localhost/busybox:1"

CONFIG = """
version = 2
root = "{base}/root"
state = "{base}/state"
disabled_plugins = [{disabled}]
[grpc]
  address = "{base}/c.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{image}"
  disable_tcp_service = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{base}/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{base}/cni-bin"
    conf_dir = "{base}/cni-net.d"
[plugins."io.containerd.internal.v1.opt"]
  path = "{base}/opt"
"""


class Containerd:
    """A containerd with everything of its own below one directory."""

    def __init__(self, base: Path, disabled: str = "") -> None:
        self.base = base
        self.socket = str(base / "c.sock")
        self.cgroup = f"test-cri-{os.getpid()}"
        (base / "cni-net.d").mkdir(exist_ok=True)
        (base / "config.toml").write_text(CONFIG.format(base=base, image=IMAGE, disabled=disabled))
        self._start()

    def _start(self) -> None:
        with (self.base / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["containerd", "--config", str(self.base / "config.toml")], stdout=log, stderr=log
            )
        ends = time.monotonic() + 20
        while True:
            try:
                with Runtime.connect(self.socket, deadline=5) as runtime:
                    runtime.version()
                return
            except RuntimeRefused as error:
                if error.code == "UNIMPLEMENTED":  # It is up, without CRI.
                    return
            except CriError:
                pass
            if time.monotonic() > ends or self.process.poll() is not None:
                raise RuntimeError((self.base / "log").read_text()[-2000:])
            time.sleep(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def restart(self) -> None:
        self.kill()
        self._start()

    def load_image(self) -> None:
        archive = self.base / "image.tar"
        archive.write_bytes(image())
        subprocess.run(
            ["ctr", "-a", self.socket, "-n", "k8s.io", "images", "import", "--snapshotter", "native", str(archive)],
            check=True,
            capture_output=True,
            timeout=60,
        )

    def log(self) -> str:
        return (self.base / "log").read_text()


def image() -> bytes:
    """A docker-archive of nothing but busybox, with /bin/sh and a command that waits for its signal."""
    program = Path(str(shutil.which("busybox"))).resolve().read_bytes()
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo("bin/busybox")
        entry.mode, entry.size = 0o755, len(program)
        tar.addfile(entry, io.BytesIO(program))
        link = tarfile.TarInfo("bin/sh")
        link.type, link.linkname = tarfile.SYMTYPE, "busybox"
        tar.addfile(link)
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = {
        "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
        "os": "linux",
        "config": {"Cmd": ["/bin/sh", "-c", "trap 'exit 7' TERM; while :; do /bin/busybox sleep 0.1; done"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, data in (
            ("config.json", json.dumps(config).encode()),
            ("layer.tar", layer.getvalue()),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return archive.getvalue()


def processes_of(base: Path) -> list[int]:
    """The processes whose command line names the directory: containerd and its shims."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if os.fsencode(base) + b"/" in command:
                found.append(int(entry.name))
    return found


def end(server: Containerd) -> None:
    """Stops and kills all of it: containers, shims, containerd, cgroups, mounts. Also after a failed test."""
    try:
        # In good order first: only so do the shims take their sockets below /run/containerd/s away.
        with Runtime.connect(server.socket, deadline=20) as runtime:
            sandboxes = runtime.sandboxes()
        with RuntimeActs.connect(server.socket, deadline=20) as acts:
            for sandbox in sandboxes:
                acts.stop_sandbox(sandbox.id)
    except CriError:
        pass
    server.kill()
    for process in processes_of(server.base):
        os.kill(process, signal.SIGKILL)
    tops = [top for pattern in ("", "*/") for top in Path("/sys/fs/cgroup").glob(pattern + server.cgroup)]
    for top in tops:
        for folder in (*(entry for entry in top.iterdir() if entry.is_dir()), top):
            for pid in (folder / "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            ends = time.monotonic() + 5
            while (folder / "cgroup.procs").read_text() and time.monotonic() < ends:
                time.sleep(0.02)
            folder.rmdir()
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        if line.split()[4].startswith(f"{server.base}/"):
            subprocess.run(["umount", "-l", line.split()[4]], check=True)
    assert processes_of(server.base) == []
    shutil.rmtree(server.base)


@pytest.fixture(scope="module")
def containerd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    base = tmp_path_factory.mktemp("c")
    server = Containerd(base)
    try:
        yield server
    finally:
        end(server)


def test_an_empty_runtime(containerd: Containerd) -> None:
    with Runtime.connect(containerd.socket, deadline=5) as runtime:
        version = runtime.version()
        assert (version.runtime, version.api) == ("containerd", "v1")
        assert version.version
        status = runtime.status()
        assert status.met("RuntimeReady") is True
        assert status.met("NetworkReady") is False  # no CNI configuration
        assert status.info == {}
        info = runtime.status(verbose=True).info
        assert {"config", "lastCNILoadStatus"} <= set(info)
        assert json.loads(info["config"])["cni"]["confDir"] == str(containerd.base / "cni-net.d")
        assert (runtime.sandboxes(), runtime.containers()) == ((), ())
        with pytest.raises(NotFound):
            runtime.container_status(full_id(1))
    with RuntimeActs.connect(containerd.socket, deadline=5) as acts:
        major_minor = tuple(int(part) for part in version.version.lstrip("v").split("~")[0].split(".")[:2])
        assert acts.stop_container(full_id(1), 0) is (Stopped.GONE if major_minor < (1, 7) else Stopped.NOW)
        assert acts.stop_sandbox(full_id(1)) in (Stopped.GONE, Stopped.NOW)


@pytest.fixture
def creator(containerd: Containerd) -> Iterator[Creator]:
    with Creator(containerd.socket, containerd.cgroup) as client:
        yield client


def test_a_real_pod(containerd: Containerd, creator: Creator) -> None:
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
        assert pod.ready and before <= pod.created_ns <= time.time_ns()
        assert pod.labels["io.kubernetes.pod.name"] == "calico-node-x"
        (seen,) = runtime.containers()
        assert (seen.id, seen.sandbox_id, seen.name, seen.attempt) == (first, sandbox, "calico-node", 0)
        assert (seen.state, seen.image) == ("running", IMAGE)
        status = runtime.container_status(first, verbose=True)
        assert status.started_ns is not None and status.started_ns >= status.created_ns >= pod.created_ns
        (mount,) = status.mounts
        assert (mount.container_path, mount.host_path) == ("/host/net.d", str(host_path))
        assert (mount.readonly, mount.propagation) == (False, "private")
        assert status.pid is not None
        assert b"trap" in Path(f"/proc/{status.pid}/cmdline").read_bytes()

    with RuntimeActs.connect(containerd.socket, deadline=deadline) as acts:
        # What the full id guards against: the runtime itself would take this for the container.
        with pytest.raises(BadId):
            acts.stop_container(first[:12], 0)
        began = time.monotonic()
        assert acts.stop_container(first, 10) is Stopped.NOW
        assert time.monotonic() - began < 8, "it exits on its signal, long before SIGKILL"
        assert acts.stop_container(first, 0) is Stopped.NOW
    with Runtime.connect(containerd.socket, deadline=deadline) as runtime:
        ended = runtime.container_status(first, verbose=True)
        assert (ended.state, ended.exit_code) == ("exited", 7)
        assert ended.finished_ns is not None and ended.finished_ns > status.started_ns
        assert ended.pid is None

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


def test_a_frozen_containerd_is_silent(containerd: Containerd) -> None:
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

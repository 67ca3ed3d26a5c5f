# SPDX-License-Identifier: Apache-2.0
"""A real containerd with everything of its own below one directory, for tests and for the bench.

Needs root and the packages containerd, runc and busybox-static; no network, no image registry."""

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
from pathlib import Path

from ostreewatchd.peers.cri.acts import RuntimeActs
from ostreewatchd.peers.cri.client import Runtime
from ostreewatchd.peers.cri.errors import CriError, RuntimeRefused

PROGRAMS = ("containerd", "containerd-shim-runc-v2", "ctr", "runc", "busybox")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]

IMAGE = "localhost/busybox:1"
ENDS_WITH_7 = "trap 'exit 7' TERM; while :; do /bin/busybox sleep 0.1; done"
"""A command that ends with status 7 on its signal."""

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
    """It runs once it is made; `end` takes it away."""

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

    def load_image(self, command: str = ENDS_WITH_7) -> None:
        """`command`: what its containers run, as text for a shell."""
        archive = self.base / "image.tar"
        archive.write_bytes(image(command))
        subprocess.run(
            ["ctr", "-a", self.socket, "-n", "k8s.io", "images", "import", "--snapshotter", "native", str(archive)],
            check=True,
            capture_output=True,
            timeout=60,
        )

    def log(self) -> str:
        return (self.base / "log").read_text()


def image(command: str) -> bytes:
    """A docker-archive of nothing but busybox, with /bin/sh."""
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
        "config": {"Cmd": ["/bin/sh", "-c", command]},
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

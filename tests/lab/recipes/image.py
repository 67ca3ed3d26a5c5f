# SPDX-License-Identifier: Apache-2.0
"""The one container image: busybox in a docker-archive made by hand, since no image registry is used."""

import hashlib
import io
import json
import platform
import tarfile

from tests.lab.errors import MissingPrograms
from tests.lab.run import run
from tests.lab.stages import Build, Stage

BUSYBOX = "/bin/busybox"
TAGS = ("registry.k8s.io/pause:3.6", "registry.k8s.io/pause:3.10.1", "localhost/busybox:1")
# Of a sandbox. A PID 1 without a handler ignores SIGTERM, and a power off then waits for it.
PAUSE = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 1000000 & wait $!; done"]
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def make(build: Build) -> None:
    applets = run([BUSYBOX, "--list"], timeout=10).stdout.split()
    if "sh" not in applets:
        raise MissingPrograms("busybox has no shell", hint="apt-get install busybox-static")
    rootfs = io.BytesIO()
    with tarfile.open(fileobj=rootfs, mode="w") as layer:
        layer.add(BUSYBOX, "bin/busybox")
        for applet in applets:
            if applet == "busybox":
                continue
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(link)
    layer_id = hashlib.sha256(rootfs.getvalue()).hexdigest()
    config = json.dumps(
        {
            "architecture": MACHINES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": PAUSE, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_id}"]},
        }
    ).encode()
    config_id = hashlib.sha256(config).hexdigest()
    manifest = json.dumps(
        [{"Config": f"{config_id}.json", "Layers": [f"{layer_id}.tar"], "RepoTags": list(TAGS)}]
    ).encode()
    with tarfile.open(build.out / "image.tar", "w") as archive:
        for name, data in (
            (f"{config_id}.json", config),
            (f"{layer_id}.tar", rootfs.getvalue()),
            ("manifest.json", manifest),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def stage() -> Stage:
    return Stage("image", make, estimate=1, hint="apt-get install busybox-static")

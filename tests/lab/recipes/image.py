# SPDX-License-Identifier: Apache-2.0
"""The container images: docker-archives made by hand around busybox, since no image registry is used."""

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Optional

from tests.lab.errors import MissingPrograms
from tests.lab.run import run
from tests.lab.stages import Build, Stage

BUSYBOX = "/bin/busybox"
TAGS = ("registry.k8s.io/pause:3.6", "registry.k8s.io/pause:3.10.1", "localhost/busybox:1")
WRITERS_TAGS = ("localhost/writers:1",)
# Of a sandbox. A PID 1 without a handler ignores SIGTERM, and a power off then waits for it.
PAUSE = ["/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 1000000 & wait $!; done"]
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def make(build: Build) -> None:
    """Busybox alone."""
    _archive(build.out / "image.tar", [_busybox()], TAGS)


def make_writers(build: Build) -> None:
    """Who writes into CNI directories: Multus and whereabouts as their own images have them, and what stands in for
    calico-node."""
    multus, kubernetes = build.inputs["multus"], build.inputs["kubernetes"]
    programs = {
        "thin_entrypoint": multus / "thin_entrypoint",
        "usr/src/multus-cni/bin/multus": multus / "multus",
        **{name: multus / name for name in ("whereabouts", "install-cni.sh", "lib.sh", "token-watcher.sh")},
        "calico-node": kubernetes / "calico",
    }
    _archive(build.out / "writers.tar", [_busybox(), _layer(programs)], WRITERS_TAGS)


def _busybox() -> bytes:
    applets = run([BUSYBOX, "--list"], timeout=10).stdout.split()
    if "sh" not in applets:
        raise MissingPrograms("busybox has no shell", hint="apt-get install busybox-static")
    links = {f"bin/{applet}": "busybox" for applet in applets if applet != "busybox"}
    return _layer({"bin/busybox": Path(BUSYBOX)}, links)


def _layer(programs: Mapping[str, Path], links: Optional[Mapping[str, str]] = None) -> bytes:
    rootfs = io.BytesIO()
    with tarfile.open(fileobj=rootfs, mode="w") as layer:
        for name, source in programs.items():
            layer.add(source, name)
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            layer.addfile(link)
    return rootfs.getvalue()


def _archive(path: Path, layers: Sequence[bytes], tags: Sequence[str]) -> None:
    ids = [hashlib.sha256(layer).hexdigest() for layer in layers]
    config = json.dumps(
        {
            "architecture": MACHINES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": PAUSE, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{one}" for one in ids]},
        }
    ).encode()
    config_id = hashlib.sha256(config).hexdigest()
    manifest = json.dumps(
        [{"Config": f"{config_id}.json", "Layers": [f"{one}.tar" for one in ids], "RepoTags": list(tags)}]
    ).encode()
    with tarfile.open(path, "w") as archive:
        for name, data in (
            (f"{config_id}.json", config),
            *((f"{one}.tar", layer) for one, layer in zip(ids, layers)),
            ("manifest.json", manifest),
        ):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def stage() -> Stage:
    return Stage("image", make, estimate=1, hint="apt-get install busybox-static")


def writers_stage(kubernetes: Stage, multus: Stage) -> Stage:
    return Stage("writers", make_writers, inputs=(kubernetes, multus), estimate=2, hint="is the disk full?")

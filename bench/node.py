# SPDX-License-Identifier: Apache-2.0
"""A node to measure on: a fake OSTree host with real mount namespaces, and a place inside to measure from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from bench import build, world
from bench.build import BenchError
from bench.world import ACTIVE, PENDING, Pod

_VAR = "ostree/deploy/debian/var"
_SNAPSHOTS = f"{_VAR}/lib/containerd/io.containerd.snapshotter.v1.overlayfs/snapshots"
_SANDBOXES = f"{_VAR}/lib/containerd/io.containerd.grpc.v1.cri/sandboxes"
_TASKS = "run/containerd/io.containerd.runtime.v2.task/k8s.io"
_SOURCES = ("node.c", "containers.c", "mounting.c", "node.h")
_ANSWER_WITHIN = 60.0
_YOUNG = 11.0
"""Seconds. The product says ten."""


class Node:
    """Made by `with`; nothing of it is left afterwards, nor when the bench is killed."""

    def __init__(self, count: int) -> None:
        self.pods = world.plan(count)
        self._base = Path(tempfile.gettempdir()) / f"ostreewatchd-bench-{os.getpid()}-{count}"
        self._cgroup = _unified() / self._base.name
        reading, self._lifeline = os.pipe()
        self._keeper = subprocess.Popen(
            [sys.executable, "-m", "bench.keeper", str(reading), str(build.program("node", *_SOURCES)),
             str(self._base), str(self._cgroup)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=build.REPOSITORY,
            pass_fds=(reading,), start_new_session=True,
        )  # fmt: skip
        os.close(reading)

    def __enter__(self) -> Node:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lifeline)
        if self._keeper.stdin:
            self._keeper.stdin.close()
        try:
            self._keeper.wait(timeout=60)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{self._cgroup} could not be removed") from None

    def _start(self) -> None:
        self.init = int(self._answer())
        _write_tree(Path(f"/proc/{self.init}/root{self._base}"), self.pods)
        self.tools = int(self.tell(f"root {ACTIVE}"))
        self.root = Path(f"/proc/{self.init}/root")
        self.tools_root = self.root / f"proc/{self.tools}/root"
        self.tell("idle 80 0")
        for pod in self.pods:
            for one in pod.containers:
                place = self.root / _TASKS / one.id
                place.mkdir(parents=True)
                (place / "config.json").write_bytes(world.bundle(pod, one))
            for line in world.commands(pod):
                self.tell(line)
        self.tell("idle 6 1")
        self._made = time.monotonic()

    def tell(self, command: str) -> str:
        """What the node answers. Raises BenchError."""
        if self._keeper.stdin is None:
            raise BenchError("the node has no input")
        try:
            self._keeper.stdin.write(command + "\n")
            self._keeper.stdin.flush()
        except OSError as error:
            raise BenchError(f"the node has gone: {error}") from error
        return self._answer(command)

    def _answer(self, to: str = "start") -> str:
        if self._keeper.stdout is None:
            raise BenchError("the node has no output")
        limit = threading.Timer(_ANSWER_WITHIN, self._keeper.kill)
        limit.start()
        try:
            line = self._keeper.stdout.readline()
        finally:
            limit.cancel()
        if not line.startswith("ok"):
            raise BenchError(f"node: {to}: {line.strip() or 'no answer'}")
        return line[3:].strip()

    def patch(self) -> int:
        """An in-service patch; when its last mount had been made, by CLOCK_MONOTONIC in nanoseconds."""
        return int(self.tell(f"patch {ACTIVE} {PENDING}"))

    def settle(self) -> None:
        """Wait until no process of the node counts as just started: a look judges those anew each time."""
        time.sleep(max(0.0, self._made + _YOUNG - time.monotonic()))

    def undo(self) -> None:
        self.tell(f"undo {ACTIVE}")

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The command line that runs a command inside."""
        namespace = f"{self.root}/proc/{self.tools}/ns"
        return ["nsenter", f"--pid={namespace}/pid", f"--mount={namespace}/mnt", "--", *arguments]


def _unified() -> Path:
    """The cgroup v2 hierarchy, alone or beside v1."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point, kind = line.split(" ")[4], line.partition(" - ")[2].partition(" ")[0]
        if kind == "cgroup2":
            return Path(point)
    raise BenchError("no cgroup v2 hierarchy is mounted: containers cannot have cgroups of their own")


def _write_tree(base: Path, pods: list[Pod]) -> None:
    """The physical sysroot: two deployments, the stateroot's var, an image."""
    for name in (ACTIVE, PENDING):
        place = base / "ostree/deploy/debian/deploy" / name
        for folder in ("usr/lib/modules/6.1.0-bench", "usr/bin", "usr/etc", "etc/cni/net.d", "var", "boot", "sysroot",
                       "proc", "sys", "dev", "run", "tmp"):  # fmt: skip
            (place / folder).mkdir(parents=True)
        shutil.copy(build.program("node", *_SOURCES), place / "usr/bin/containerd-shim-runc-v2")
        (place / "lib").symlink_to("usr/lib")
        (place / "ostree").symlink_to("sysroot/ostree")
        for file in ("10-calico.conflist", "00-multus.conf"):
            (place / "etc/cni/net.d" / file).write_text("{}\n")
        # One that cannot be read is looked at again after pauses: it may be half written.
        (place / "etc/cni/net.d/calico-kubeconfig").write_text("users: [{user: {token: of-the-bench}}]\n")
    entries = base / "boot/loader/entries"
    entries.mkdir(parents=True)
    checksum = "c3" * 32
    for number, name in ((1, ACTIVE),):
        link = base / f"ostree/boot.1/debian/{checksum}"
        link.mkdir(parents=True, exist_ok=True)
        (link / "0").symlink_to(f"../../../deploy/debian/deploy/{name}")
        options = f"options root=/dev/vda ostree=/ostree/boot.1/debian/{checksum}/0"
        (entries / f"ostree-{number}.conf").write_text(f"title Bench\nversion {number}\n{options}\n")
    _write_image(base / _SNAPSHOTS)
    for folder in ("log/containers", "log/pods", "lib/kubelet/pods"):
        (base / _VAR / folder).mkdir(parents=True)
    for pod in pods:
        kubelet, sandbox = base / _VAR / "lib/kubelet/pods" / pod.uid, base / _SANDBOXES / pod.sandbox
        sandbox.mkdir(parents=True)
        for folder in ("volumes/kubernetes.io~configmap/config", "volumes/kubernetes.io~projected/token"):
            (kubelet / folder).mkdir(parents=True)
        for path in (sandbox / "hostname", sandbox / "resolv.conf", kubelet / "etc-hosts"):
            path.write_text("bench\n")
        for one in pod.containers:
            if not one.is_sandbox:
                (kubelet / "containers" / one.name).mkdir(parents=True)
                (kubelet / "containers" / one.name / "log").write_text("")
                name, target = world.log_link(pod, one)
                os.symlink(target, base / _VAR / "log/containers" / name)


def _write_image(snapshots: Path) -> None:
    """Six layers; the lowest has findmnt with its libraries, for the script to run in the container."""
    for layer in range(1, 7):
        (snapshots / f"{layer}/fs").mkdir(parents=True)
    lowest = snapshots / "1/fs"
    for folder in ("proc", "sys", "dev", "etc", "tmp", "var", "run", "usr/bin", "usr/lib", "lib", "bin"):
        (lowest / folder).mkdir(parents=True, exist_ok=True)
    findmnt = shutil.which("findmnt") or ""
    needed = re.findall(r"(?:=> )?(/\S+) \(0x", build.run(["ldd", findmnt]))
    for path in (findmnt, *needed):
        target = lowest / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(os.path.realpath(path), target)

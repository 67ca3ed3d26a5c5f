# SPDX-License-Identifier: Apache-2.0
"""A world to do random things to: a host with three deployments around PID 1 of namespaces of its own, and
containers that say themselves what they see. An operation that the kernel refuses changes nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.host import clone
from tests.host.clone import Seen
from tests.host.fakehost import bind, mount, umount
from tests.host.worldprocesses import Given, Process, be_container, be_fresh, start

CHECKSUMS = ("a" * 64, "b" * 64, "c" * 64)
SLOTS = 4
IDS = tuple(f"{slot:x}" * 8 + "d" * 56 for slot in range(1, SLOTS + 1))
"""Container ids, one a slot: their cgroups are made once for all worlds."""
CNI = "/etc/cni/net.d"
FILE = f"{CNI}/10-calico.conflist"
PLACES = ("/etc/cni", CNI, "/etc/kubernetes", "/usr/lib", "/usr/lib/modules", "/etc", "/usr", FILE, "/var/lib/data")
"""What is mounted over, replaced and removed."""
SOURCES = (CNI, "/etc", "/", "/usr", "/etc/cni", FILE, "/lib/modules", "/usr/lib/modules", "/etc/kubernetes",
           "/var/lib/data", "/usr/bin", f"{CNI}/sub")  # fmt: skip
WATCHED = ("/usr", "/etc", CNI)
"""What is looked at also where it is seen by way of an ancestor."""
_DEPLOY = "ostree/deploy/debian/deploy"
_BUNDLES = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
_TREE = ("etc/cni/net.d/sub", "etc/kubernetes/pki", "usr/lib/modules", "usr/bin", "usr/etc", "sysroot", "var", "proc",
         "run", "tmp", "ostree")  # fmt: skip
_REC, _PRIVATE, _SLAVE, _SHARED = 0x4000, 1 << 18, 1 << 19, 1 << 20
_KINDS = {"private": _PRIVATE, "slave": _SLAVE, "shared": _SHARED}


class Container:
    """A running one; what it was given and still holds."""

    def __init__(self, slot: int, process: Process, binds: list[Given]) -> None:
        self.slot = slot
        self.id = IDS[slot]
        self.process = process
        self.binds = binds
        self.shim = process.child if process.child != process.pid else 1
        """The process that made its binds."""
        self.see = process.see
        self.is_chrooted = False
        self.own: dict[str, list[Seen | None]] = {}
        """Where it mounted something of its own, and what is to be seen as long as it is there."""

    def chroot(self, root: str) -> None:
        """What is not below the new root is out of its sight."""
        inside = [one for one in self.binds if (one.target + "/").startswith(root.rstrip("/") + "/")]
        length = len(root.rstrip("/"))
        self.is_chrooted = True
        self.binds = [one._replace(target=one.target[length:] or "/") for one in inside]
        self.own = {at[length:] or "/": seen for at, seen in self.own.items() if (at + "/").startswith(root + "/")}


class World:
    """Made by PID 1. Afterwards `/` is the first deployment."""

    def __init__(self, folder: str, layout: int, cgroups: Sequence[int]) -> None:
        """`layout`: bit 0: /etc is a mount of its own; bit 1: `/` is private; bit 2: no mount at /sysroot."""
        self.containers: dict[int, Container] = {}
        self._cgroups = cgroups
        self._serial = 0
        self._stopped: int | None = None
        self.reused = 0
        """How many containers have the pid of one before."""
        physical, root = f"{folder}/sysroot", f"{folder}/root"
        first = f"{physical}/{_DEPLOY}/{CHECKSUMS[0]}.0"
        os.mkdir(root)
        bind(first, root)
        bind(f"{first}/usr", f"{root}/usr", read_only=True)
        if layout & 1:
            bind(f"{first}/etc", f"{root}/etc")
        if not layout & 4:
            bind(physical, f"{root}/sysroot")
        bind(f"{physical}/ostree/deploy/debian/var", f"{root}/var")
        mount("proc", f"{root}/proc", "proc")
        for name in ("run", "tmp"):
            mount("tmpfs", f"{root}/{name}", "tmpfs")
        clone.pivot(root)
        if not layout & 2:
            mount("none", "/", flags=_REC | _SHARED)
        self._deployments = []
        for checksum in CHECKSUMS:
            self._deployments.append(f"/sysroot/{_DEPLOY}/{checksum}.0")

    def do(self, name: str, *arguments: Any) -> bool:
        """One operation; whether it was done."""
        try:
            getattr(self, f"_do_{name}")(*arguments)
        except (OSError, KeyError):
            return False
        return True

    # What happens to the host.

    def _do_switch(self, which: int, parts: int) -> None:
        tree, old = self._deployments[which], self._deployments[0]
        if parts & 1:
            bind(f"{tree}/usr", "/usr", read_only=True)
        if parts & 2:
            bind(f"{tree}/etc", "/etc")
            if which:
                bind(f"{tree}/etc", f"{old}/etc")

    def _do_bind(self, source: int, place: int, recursive: bool) -> None:
        bind((*PLACES, *(f"{tree}/etc" for tree in self._deployments))[source], PLACES[place], recursive=recursive)

    def _do_tmpfs(self, place: int, filled: bool) -> None:
        mount("tmpfs", PLACES[place], "tmpfs", data="size=64k")
        if filled:
            with contextlib.suppress(OSError):
                os.makedirs(f"/{PLACES[place]}/net.d")

    def _do_overlay(self, place: int) -> None:
        self._serial += 1
        upper = f"/var/lib/overlay/{self._serial}"
        for part in ("upper", "work"):
            os.makedirs(f"{upper}/{part}")
        at = PLACES[place]
        mount("overlay", at, "overlay", data=f"lowerdir={at},upperdir={upper}/upper,workdir={upper}/work")

    def _do_umount(self, place: int) -> None:
        umount(PLACES[place])

    def _do_propagation(self, place: int, kind: str, recursive: bool) -> None:
        mount("none", ("/", *PLACES)[place], flags=_KINDS[kind] | (_REC if recursive else 0))

    def _do_rename(self, place: int, again: bool) -> None:
        path = PLACES[place]
        self._serial += 1
        is_directory = os.path.isdir(path)
        os.rename(path, f"{path}.{self._serial}")
        if again and is_directory:
            os.mkdir(path)
        elif again:
            Path(path).write_text("new")

    def _do_delete(self, place: int, again: bool) -> None:
        path = PLACES[place]
        if not os.path.isdir(path):
            os.unlink(path)
        else:
            shutil.rmtree(path)
        if again:
            os.makedirs(path)

    def _do_write(self, place: int) -> None:
        """A file is replaced as editors do it, a directory gets a file."""
        path = PLACES[place]
        self._serial += 1
        if os.path.isdir(path):
            Path(f"{path}/{self._serial}.conf").write_text("x")
            return
        Path(f"{path}.new").write_text("x")
        os.rename(f"{path}.new", path)

    # What happens to containers.

    def _do_start(self, slot: int, binds: Sequence[Sequence[int]], apart: int, same_pid: bool = False) -> None:
        """`same_pid`: with the number of the container that was stopped last."""
        if slot in self.containers:
            self._stop(slot)
        given = []
        for number, (source, way, flags) in enumerate(binds):
            path = SOURCES[source]
            ways = ("/host" + path.rstrip("/"), path if path != "/" else "/all", f"/vol{number}", f"/host/v{number}")
            target = ways[way] if path != "/lib/modules" else path  # Below /host a link would lead elsewhere.
            if os.path.exists(path) and target not in [one.target for one in given]:
                given.append(Given(path, target, bool(flags & 1), not flags & 2))
        self._write_bundle(slot, given)
        process = start(
            lambda: be_container(slot, given),
            clone.NEWNS,
            cgroup=self._cgroups[slot],
            apart=apart,
            pid=self._stopped if same_pid else None,
        )
        self.reused += process.pid == self._stopped
        self.containers[slot] = Container(slot, process, given)

    def _write_bundle(self, slot: int, binds: Sequence[Given]) -> None:
        os.makedirs(f"{_BUNDLES}/{IDS[slot]}", exist_ok=True)
        notes = {"container-type": "container", "container-name": f"c{slot}", "sandbox-name": f"pod{slot}",
                 "sandbox-namespace": "n", "sandbox-uid": f"uid{slot}", "sandbox-id": "5" * 64}  # fmt: skip
        mounts = [
            {"destination": one.target, "source": one.source, "type": "bind", "options": ["rbind"]} for one in binds
        ]
        spec = {"mounts": mounts, "annotations": {f"io.kubernetes.cri.{key}": text for key, text in notes.items()}}
        Path(f"{_BUNDLES}/{IDS[slot]}/config.json").write_text(json.dumps(spec))

    def _do_stop(self, number: int) -> None:
        self._stop(self._running(number).slot)

    def _running(self, number: int) -> Container:
        """One of those that run, by any number. Raises KeyError if none does."""
        running = list(self.containers.values())
        if not running:
            raise KeyError(number)
        return running[number % len(running)]

    def _stop(self, slot: int) -> None:
        process = self.containers.pop(slot).process
        # Its other processes end with it, as a runtime has it. Not by cgroup.kill: who is cloned into a cgroup that
        # was ever killed so is killed, too (6.18).
        while True:
            with open(os.open("cgroup.procs", os.O_RDONLY, dir_fd=self._cgroups[slot]), "rb") as file:
                left = [pid for pid in map(int, file) if pid != process.pid]
            if not left:
                break
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid or process.pid, signal.SIGKILL)
        process.end()
        while os.path.exists(f"/proc/{process.pid}"):  # Its parent was another, and has ended.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process.pid, os.WNOHANG)
            time.sleep(0.001)
        self._stopped = process.pid

    def _do_inside(self, container: int, number: int, what: str) -> None:
        """The container does something to a bind of its own."""
        one = self._running(container)
        if not one.binds:
            raise KeyError(number)
        given = one.binds[number % len(one.binds)]
        if not one.process.tell(what, given.target):
            raise OSError(what)
        if what == "umount":
            one.binds.remove(given)
        elif what == "chroot":
            one.chroot(given.target)
        elif what == "tmpfs":
            one.own[given.target] = one.see([given.target])

    # What is asked.

    def fresh(self, shim: int, sources: Sequence[str], paths: Sequence[str]) -> list[Seen | None]:
        """What a container that the shim makes now has: of each `source below` in paths, `<number of the
        source><below>`, the identity."""
        process = start(lambda: be_fresh(shim, sources), clone.NEWNS)
        seen = process.see(paths)
        process.end()
        return seen


def build_tree(folder: str) -> None:
    """The physical sysroot, before there is a world."""
    for mark, checksum in enumerate(CHECKSUMS):
        tree = f"{folder}/sysroot/{_DEPLOY}/{checksum}.0"
        for name in _TREE:
            os.makedirs(f"{tree}/{name}")
        os.rmdir(f"{tree}/ostree")
        os.symlink("sysroot/ostree", f"{tree}/ostree")
        os.symlink("usr/lib", f"{tree}/lib")
        Path(f"{tree}{FILE}").write_text(str(mark))
    for name in ("lib/data", "lib/overlay", "log/containers"):
        os.makedirs(f"{folder}/sysroot/ostree/deploy/debian/var/{name}")

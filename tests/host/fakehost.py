# SPDX-License-Identifier: Apache-2.0
"""A patched OSTree host around PID 1 of a test's namespaces: two deployments on a real filesystem, containers that are
processes with real mount namespaces and cgroups, and the binds of an in-service patch."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from ostreewatchd.model import History, Settings, Snapshot
from ostreewatchd.observe.containers import ContainerLooker
from ostreewatchd.observe.look import look
from ostreewatchd.peers.aside import Aside
from tests.host.namespace import cgroup_roots, token

CNI = "/etc/cni/net.d"
OLD, NEW = "a" * 64, "b" * 64
_BUNDLES = "/run/containerd/io.containerd.runtime.v2.task/k8s.io"
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE, _MS_SLAVE, _MS_SHARED = (
    0x1, 0x20, 0x1000, 0x4000, 1 << 18, 1 << 19, 1 << 20,
)  # fmt: skip
_CLONE_NEWNS = 0x20000
_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    """mount(2)."""
    if _libc.mount(os.fsencode(source), os.fsencode(target), kind.encode() or None, flags, data.encode() or None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"mount {source} on {target}: {os.strerror(code)}")


def bind(source: str, target: str, *, recursive: bool = False, read_only: bool = False) -> None:
    mount(source, target, flags=_MS_BIND | (_MS_REC if recursive else 0))
    if read_only:
        mount("none", target, flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY)


def umount(target: str) -> None:
    """umount2(2), lazily."""
    if _libc.umount2(target.encode(), 2) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"umount {target}: {os.strerror(code)}")


def unshare_mounts() -> None:
    if _libc.unshare(_CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


class Bind(NamedTuple):
    """What a container is given. `propagated`: as with mountPropagation HostToContainer; `says`: the source that
    its bundle names, if that is another one."""

    source: str
    target: str
    writable: bool = True
    propagated: bool = False
    says: str = ""


class FakeHost:
    """The host. After the constructor, `/` is the old deployment, as ostree-prepare-root lays it out."""

    bundles = _BUNDLES

    def __init__(self, folder: Path) -> None:
        physical = folder / "sysroot"
        self._deploy = "ostree/deploy/debian/deploy"
        self._plant(physical)
        self._cgroups = [(root / token(), os.open(root, os.O_RDONLY | os.O_DIRECTORY)) for root in cgroup_roots()]
        root = str(folder / "root")
        os.mkdir(root)
        self._lay_out(physical, root)
        os.chroot(root)
        os.chdir("/")
        os.makedirs(self.bundles)
        self.aside = Aside()
        self.looker = ContainerLooker(remember=True, aside=self.aside)
        self._serial = 0

    def _plant(self, physical: Path) -> None:
        """The files of the disk."""
        for checksum, mark in ((OLD, "old"), (NEW, "new")):
            self._plant_tree(physical / self._deploy / f"{checksum}.0", mark)
        var = physical / "ostree/deploy/debian/var"
        (var / "log/containers").mkdir(parents=True)
        (var / "lib/ostreewatchd").mkdir(parents=True)

    def _plant_tree(self, tree: Path, mark: str) -> None:
        for name in ("etc/cni/net.d", "usr/lib/modules", "usr/etc", "sysroot", "var", "proc", "run", "sys", "tmp",
                     "ostree", "boot"):  # fmt: skip
            (tree / name).mkdir(parents=True)
        (tree / "etc/cni/net.d/10-calico.conflist").write_text(mark)
        (tree / "usr/lib/modules/mark").write_text(mark)

    def _lay_out(self, physical: Path, root: str) -> None:
        """The mounts of a booted host, at `root`."""
        old = f"{physical}/{self._deploy}/{OLD}.0"
        bind(old, root)
        mount("none", root, flags=_MS_SHARED)
        bind(f"{old}/usr", f"{root}/usr", read_only=True)
        bind(str(physical), f"{root}/sysroot")
        bind(f"{physical}/ostree/deploy/debian/var", f"{root}/var")
        mount("proc", f"{root}/proc", "proc")
        mount("tmpfs", f"{root}/run", "tmpfs")
        mount("tmpfs", f"{root}/tmp", "tmpfs")
        os.rmdir(f"{root}/ostree")
        os.symlink("sysroot/ostree", f"{root}/ostree")

    def patch(self, *, usr: bool = True, etc: bool = True) -> None:
        """The four binds of an in-service patch, in their order."""
        new, old = (f"/sysroot/{self._deploy}/{checksum}.0" for checksum in (NEW, OLD))
        if usr:
            bind(f"{new}/usr", "/usr", read_only=True)
        if etc:
            bind(f"{new}/etc", "/etc")
            bind(f"{new}/usr/etc", f"{old}/usr/etc", read_only=True)
            bind(f"{new}/etc", f"{old}/etc")

    def unlock(self, *, read_only: bool = False) -> None:
        """The overlay of `ostree admin unlock` on /usr, with its relative lower directory and no flag file."""
        self._serial += 1
        folder = f"/tmp/unlock-{self._serial}"
        os.makedirs(f"{folder}/upper")
        os.makedirs(f"{folder}/work")
        data = f"lowerdir=usr,upperdir={folder}/upper,workdir={folder}/work"
        mount("overlay", "/usr", "overlay", _MS_RDONLY if read_only else 0, data)

    def write(self, path: str, data: bytes | str = b"") -> None:
        """A file of libostree's or rpm-ostree's, with its directories."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_bytes(data if isinstance(data, bytes) else data.encode())

    def container(
        self,
        name: str,
        binds: Iterable[Bind] = (),
        *,
        bundle: bool = True,
        link: bool = False,
        group: str = "",
        pod: str = "",
        body: Callable[[], None] | None = None,
    ) -> Container:
        """Start one: its own mount namespace, root filesystem and cgroup. It is ready when this returns."""
        self._serial += 1
        id = hashlib.sha256(f"{name}/{self._serial}".encode()).hexdigest()
        given = list(binds)
        if bundle:
            of_pod = {"sandbox-name": pod, "sandbox-uid": f"uid-of-{pod}"} if pod else {}
            self.write_bundle(id, name, given, **of_pod)
        if link:
            log = f"/var/log/pods/kube-system_{name}-x1_uid-of-{name}-x1/{name}/{self._serial}.log"
            os.symlink(log, f"/var/log/containers/{name}-x1_kube-system_{name}-{id}.log")
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._in_child(id, given, tell, group or id, body)
        os.close(tell)
        with os.fdopen(ready, "rb") as file:
            text = file.read().decode()
        assert text == "ready", text
        return Container(id, name, pid, self._serial)

    def write_bundle(self, id: str, name: str, binds: Iterable[Bind], **annotations: str) -> None:
        os.makedirs(f"{self.bundles}/{id}", exist_ok=True)
        notes = {
            "container-type": "container", "container-name": name, "sandbox-id": "5" * 64,
            "sandbox-name": f"{name}-x1", "sandbox-namespace": "kube-system", "sandbox-uid": f"uid-of-{name}-x1",
            **annotations,
        }  # fmt: skip
        spec = {
            "mounts": [
                {"destination": one.target, "source": one.says or one.source, "type": "bind", "options": ["rbind"]}
                for one in binds
            ],
            "annotations": {f"io.kubernetes.cri.{key}": value for key, value in notes.items()},
        }
        Path(f"{self.bundles}/{id}/config.json").write_text(json.dumps(spec))

    def _in_child(self, id: str, binds: list[Bind], tell: int, group: str, body: Callable[[], None] | None) -> None:
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._join(group)
            unshare_mounts()
            mount("none", "/", flags=_MS_REC | _MS_SLAVE)
            root = f"/tmp/{id}"
            os.mkdir(root)
            mount("tmpfs", root, "tmpfs")
            mount("none", root, flags=_MS_PRIVATE)
            for one in binds:
                if os.path.isdir(one.source):
                    os.makedirs(root + one.target, exist_ok=True)
                else:
                    os.makedirs(os.path.dirname(root + one.target), exist_ok=True)
                    Path(root + one.target).touch()
                bind(one.source, root + one.target, recursive=True)
                if not one.propagated:
                    mount("none", root + one.target, flags=_MS_REC | _MS_PRIVATE)
                if not one.writable:
                    mount("none", root + one.target, flags=_MS_BIND | _MS_REMOUNT | _MS_RDONLY)
            os.chroot(root)
            os.chdir("/")
            if body is not None:
                body()
            os.write(tell, b"ready")
            os.close(tell)
            while True:
                signal.pause()
        except BaseException:  # noqa: BLE001 (the parent shows it)
            os.write(tell, traceback.format_exc().encode())
        finally:
            os._exit(1)

    def _join(self, group: str) -> None:
        for folder, top in self._cgroups:
            for part in (folder.name, f"{folder.name}/{group}"):
                try:
                    os.mkdir(part, dir_fd=top)
                except FileExistsError:
                    continue
            fd = os.open(f"{folder.name}/{group}/cgroup.procs", os.O_WRONLY, dir_fd=top)
            os.write(fd, b"0")
            os.close(fd)

    def join_init_scope(self) -> None:
        """This process is PID 1, and now in the cgroup in which systemd has itself."""
        self._join("init.scope")

    def look(self) -> Snapshot:
        """A look as the watcher does it, with its memory."""
        return look(Settings(), self.looker, History())

    def look_anew(self) -> Snapshot:
        """A look without memory, but for what did not answer."""
        looker = ContainerLooker(remember=False, aside=self.aside)
        try:
            return look(Settings(), looker, History())
        finally:
            looker.close()


class Container(NamedTuple):
    id: str
    name: str
    pid: int
    attempt: int

    def kill(self) -> None:
        """End it and wait for its end."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def show(snapshot: Snapshot) -> None:
    """For the failure's text."""
    for container in snapshot.containers:
        print(container.name, container.id[:8], file=sys.stderr)
        for one in container.binds:
            print("   ", one, file=sys.stderr)
    for reference in snapshot.references:
        print(reference, file=sys.stderr)
    print(snapshot.problems, snapshot.live, file=sys.stderr)

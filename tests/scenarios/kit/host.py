# SPDX-License-Identifier: Apache-2.0
"""The hosts of scenarios: FakeHost on a disk of its own, laid out as each kind of host boots."""

from __future__ import annotations

import enum
import json
import os
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inotify_simple import INotify, flags

from tests.fakes.credentials import FORMS, HOUR, kubeconfig, token
from tests.host.fakehost import CNI, NEW, OLD, FakeHost, bind, mount, unshare_mounts
from tests.host.pretend import pretend

HOST_CNI = f"/host{CNI}"
PRIVATE, SLAVE = 1 << 18, 1 << 19
"""mount(2): MS_PRIVATE, MS_SLAVE."""
_MS_REC, _MS_SHARED, _MS_RDONLY = 0x4000, 1 << 20, 1
_RUNTIMES = ("containerd", "crio")
_FOLDERS = ("proc", "run", "sys", "tmp", "var", "sysroot", "usr/lib/modules", "etc/cni/net.d")


class Layout(enum.Enum):
    """How the host was booted."""

    CLASSIC = "`/` is a bind of the deployment, `/usr` a read-only bind of itself, `/etc` no mount"
    READ_ONLY_SYSROOT = "as CLASSIC, with `/etc` a bind of the deployment's"
    COMPOSEFS = "`/` is an overlay, `/etc` a bind of the deployment's"
    TRANSIENT_ETC = "`/` is an overlay, and so is `/etc`"
    PLAIN = "no OSTree: one filesystem is `/`"


class ScenarioHost(FakeHost):
    """The host. Its disk is a tmpfs, so nothing is left of it and inode numbers are small."""

    def __init__(self, folder: Path, layout: Layout = Layout.CLASSIC) -> None:
        self.layout = layout
        os.mkdir(folder / "sysroot")
        mount("tmpfs", str(folder / "sysroot"), "tmpfs", data="mode=755")
        self._generation = 0
        super().__init__(folder)

    def _plant(self, physical: Path) -> None:
        if self.layout is not Layout.PLAIN:
            super()._plant(physical)
            return
        for name in (*_FOLDERS, "var/log/containers", "var/lib/ostreewatchd"):
            (physical / name).mkdir(parents=True)
        (physical / "etc/cni/net.d/10-calico.conflist").write_text("one")

    def _lay_out(self, physical: Path, root: str) -> None:
        if self.layout is Layout.CLASSIC:
            super()._lay_out(physical, root)
            return
        if self.layout is Layout.PLAIN:
            bind(str(physical), root)
            mount("none", root, flags=_MS_SHARED)
        else:
            self._lay_out_deployment(physical, root)
        for name, kind in (("proc", "proc"), ("run", "tmpfs"), ("tmp", "tmpfs")):
            mount(kind, f"{root}/{name}", kind)

    def _lay_out_deployment(self, physical: Path, root: str) -> None:
        old = f"{physical}/{self._deploy}/{OLD}.0"
        os.rmdir(f"{old}/ostree")
        os.symlink("sysroot/ostree", f"{old}/ostree")
        if self.layout is Layout.READ_ONLY_SYSROOT:
            bind(old, root, read_only=True)
            mount("none", root, flags=_MS_SHARED)
            bind(f"{old}/usr", f"{root}/usr", read_only=True)
        else:
            # As composefs shows itself: an overlay whose lower layers are data only. One of two directories is enough.
            os.mkdir(f"{physical}/none")
            mount("composefs", root, "overlay", _MS_RDONLY, f"lowerdir={old}:{physical}/none")
            mount("none", root, flags=_MS_SHARED)
        bind(str(physical), f"{root}/sysroot")
        bind(f"{physical}/ostree/deploy/debian/var", f"{root}/var")
        if self.layout is Layout.TRANSIENT_ETC:
            self._overlay(f"{root}/etc", lower=f"{old}/etc", upper=f"{physical}/transient-etc")
        else:
            bind(f"{old}/etc", f"{root}/etc")

    def _overlay(self, point: str, *, lower: str, upper: str, source: str = "overlay") -> None:
        for name in ("upper", "work"):
            os.makedirs(f"{upper}/{name}")
        mount(source, point, "overlay", data=f"lowerdir={lower},upperdir={upper}/upper,workdir={upper}/work")

    def overlay(self, point: str, *, lower: str = "", source: str = "overlay", name: str = "") -> str:
        """Put an overlay over what is at `point` (or of `lower`), its upper directory on the disk (below /sysroot, or
        `/` of a PLAIN host). Returns that directory."""
        self._generation += 1
        below = "" if self.layout is Layout.PLAIN else "/sysroot"
        upper = f"{below}/{name or 'overlay'}-{self._generation}"
        self._overlay(point, lower=lower or point, upper=upper, source=source)
        return upper

    def switch(self, checksum: str, *, usr: bool = True, etc: bool = True) -> None:
        """One more in-service patch, to a deployment that is written now: `c` * 64."""
        tree = Path(f"/sysroot/{self._deploy}/{checksum}.0")
        if not tree.exists():
            self._plant_tree(tree, "newer")
        if usr:
            bind(f"{tree}/usr", "/usr", read_only=True)
        if etc:
            bind(f"{tree}/etc", "/etc")

    def soft_reboot(self, checksum: str = NEW) -> None:
        """Another deployment is `/`: of what ran only what is told to survive does."""
        root = "/run/nextroot"
        os.mkdir(root)
        bind(self.tree(checksum), root)
        mount("none", root, flags=_MS_SHARED)
        bind(f"{self.tree(checksum)}/usr", f"{root}/usr", read_only=True)
        for name in ("sysroot", "var", "run", "tmp"):
            bind(f"/{name}", f"{root}/{name}")
        mount("proc", f"{root}/proc", "proc")
        os.rmdir(f"{root}/ostree")
        os.symlink("sysroot/ostree", f"{root}/ostree")
        os.chroot(root)
        os.chdir("/")

    def token(self, writer: str, *, since: float, lasts: float = 24 * HOUR, at: str = CNI, **more: Any) -> None:
        """As the writer's file, issued and written `since` seconds ago; `at`: the CNI directory, or another. The rest
        as in tests/fakes/credentials.py."""
        issued = int(time.time()) - since
        path = Path(at, FORMS[writer][0])
        path.parent.mkdir(exist_ok=True)
        path.write_text(kubeconfig(writer, token(issued, lasts, **more)))
        path.chmod(0o600)
        os.utime(path, (issued, issued))

    def project(self, pod: str, *, since: float, lasts: float) -> None:
        """kubelet has this token in the pod's volume."""
        place = Path(f"/var/lib/kubelet/pods/uid-of-{pod}/volumes/kubernetes.io~projected/kube-api-access")
        place.mkdir(parents=True)
        (place / "token").write_text(token(int(time.time()) - since, lasts, pod=pod))

    def kubelets_pods(self, *uids: str) -> None:
        """kubelet has directories of these."""
        for uid in uids:
            os.makedirs(f"/var/lib/kubelet/pods/{uid}")

    def process(
        self,
        name: str,
        *arguments: str,
        propagation: int = 0,
        unit: str = "",
        start: Callable[[], object] | None = None,
    ) -> int:
        """One of the host's processes, by what /proc shows of it; `start`: what it starts. `propagation` (MS_PRIVATE,
        MS_SLAVE): in a mount namespace of its own."""
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                if propagation:
                    unshare_mounts()
                    mount("none", "/", flags=_MS_REC | propagation)
                if unit:
                    self._join(unit)
                pretend(name, *arguments)
                if name in _RUNTIMES:
                    self._watch_cni()
                if start is not None:
                    start()
                os.write(tell, b"x")
                while True:
                    signal.pause()
            except BaseException:  # noqa: BLE001 (the parent shows it)
                os.write(tell, traceback.format_exc().encode())
            finally:
                os._exit(1)
        os.close(tell)
        text = os.read(ready, 1 << 16).decode()
        os.close(ready)
        assert text == "x", text
        return pid

    def _watch_cni(self) -> None:
        """As a runtime does when it starts; the process keeps it."""
        with INotify() as inotify:
            if os.path.isdir(CNI):
                inotify.add_watch(CNI, flags.CREATE | flags.CLOSE_WRITE | flags.MOVED_TO | flags.DELETE)
            os.dup(inotify.fileno())

    def network(self, name: str, file: str = "10-calico.conflist", *, at: str = CNI) -> None:
        """A file of CNI configuration of this network."""
        plugin = "multus" if name.startswith("multus") else "calico"
        Path(at, file).write_text(json.dumps({"cniVersion": "0.3.1", "name": name, "plugins": [{"type": plugin}]}))

    def tree(self, checksum: str = NEW) -> str:
        """Where a deployment is on the disk."""
        return f"/sysroot/{self._deploy}/{checksum}.0"

# SPDX-License-Identifier: Apache-2.0
"""How the node looks: a Snapshot of the true state, torn or blind where a real look would be."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

from ostreewatchd.model import (
    Bind,
    Binder,
    Container,
    Daemon,
    Deployments,
    Flag,
    History,
    Identity,
    KubeletView,
    Live,
    Node,
    Ostree,
    Pod,
    Reference,
    RpmOstreeView,
    RuntimeContainer,
    RuntimePod,
    RuntimeView,
    Sight,
    Snapshot,
    SystemView,
)
from ostreewatchd.platforms import FLAGS, GENERIC
from tests.sim.host import PENDING_FLAG, Deployment, Host
from tests.sim.pods import Kubelet, Subject, Tree
from tests.sim.runtime import Runtime

CNI = "/etc/cni/net.d"
HOST_NAMESPACE, RUNTIME_NAMESPACE, FIRST_SHIM = 4026531841, 4026533000, 4026534000
_BINDER = Binder(pid=3000, mount_namespace=HOST_NAMESPACE)
_LABELS = {
    "daemon-set": {"controller-revision-hash": "5d8f", "pod-template-generation": "1"},
    "job": {"batch.kubernetes.io/job-name": "once"},
    "none": {},
}
_FLAGS = {flag.path: flag for flag in FLAGS}
_LOOKS = 4
"""observe.look looks so often while the host moves."""


class Views(NamedTuple):
    """The parts of a Snapshot that change only with the node."""

    version: int
    containers: tuple[Container, ...]
    references: tuple[Reference, ...]
    live: Live
    ostree: Ostree
    runtime: RuntimeView
    kubelet: KubeletView


class Eyes:
    """Looks at one node."""

    def __init__(self, host: Host, kubelet: Kubelet, runtime: Runtime, *, serials: bool) -> None:
        self._host, self._kubelet, self._runtime = host, kubelet, runtime
        self._serials = serials
        """Whether the kernel has unique mount ids."""
        self._views: Optional[Views] = None
        self.version = 0
        """Grows with each change of the node."""
        self.system = "running"
        """Also stopping, silent."""
        self.next_root = ""
        """The deployment that is prepared for a soft reboot."""
        self.transaction: Optional[str] = ""
        """What rpm-ostree is at work on; None: it does not answer."""
        self.trust_torn = False
        """A planted bug: nothing compares what was seen first with what was seen last."""
        self.middle: Any = lambda: None
        """Between containers and references of one look."""

    def changed(self) -> None:
        self.version += 1

    def views(self) -> Views:
        if self._views is None or self._views.version != self.version:
            self._views = Views(
                self.version,
                self._containers(),
                self._references(),
                self._live(),
                self._ostree(),
                self._lists(),
                self._kubelet_view(),
            )
        return self._views

    def live(self) -> Live:
        return self.views().live

    def flags(self) -> tuple[Flag, ...]:
        now = self._host.timeline.now
        return tuple(
            Flag(path=path, means=_FLAGS[path].means, always=_FLAGS[path].always, age=now - since)
            for path, since in self._host.flags.items()
        )

    def look(self, history: History, *, deep: bool) -> Snapshot:
        for _ in range(_LOOKS):
            snapshot = self.look_once(history, self.live(), self.flags(), deep=deep)
            if not snapshot.torn:
                break
        return snapshot

    def look_once(self, history: History, live: Live, flags: tuple[Flag, ...], *, deep: bool) -> Snapshot:
        """Containers, then references, then whether the host is still the one of the glance; then who answers."""
        timeline = self._host.timeline
        wall, boottime = timeline.wall(), timeline.boottime()
        before = self.views()
        self.middle()
        after = self.views()
        torn = ""
        if after.live.fingerprint != live.fingerprint:
            torn = "the host was switched during the look"
        elif any(path not in {flag.path for flag in flags} for path in self._host.flags):
            torn = "a flag came during the look"
        return Snapshot(
            product="0",
            torn="" if self.trust_torn else torn,
            taken_at=wall,
            taken_boottime=boottime,
            node=Node(name="node0", boot_id=self._host.boot_id, kernel="6.18", platform="generic"),
            live=live,
            init_mount_namespace=HOST_NAMESPACE,
            cni_directories=(CNI,),
            writers=GENERIC.writers,
            self_written=GENERIC.self_written,
            container_count=len(before.containers),
            containers=before.containers,
            references=after.references,
            flags=flags,
            ostree=self.views().ostree,
            daemons=(self._daemon(),),
            history=history,
            system=self._system() if deep else None,
            runtime=after.runtime if deep else None,
            kubelet=after.kubelet if deep else None,
            rpm_ostree=self._rpm_ostree() if deep else None,
        )

    def _system(self) -> SystemView:
        if self.system == "silent":
            return SystemView(problem="no answer in 3.0 s")
        return SystemView(state=self.system, soft_reboots=self._host.soft_reboots)

    def _rpm_ostree(self) -> RpmOstreeView:
        if self.transaction is None:
            return RpmOstreeView(problem="no answer in 4.0 s")
        return RpmOstreeView(installed=True, owned=True, transaction=bool(self.transaction), title=self.transaction)

    def _sight(self, of: Subject | Deployment | Tree, inode: int, serial: int, born: Optional[float]) -> Sight:
        return Sight(
            identity=Identity(dev=65024, ino=inode),
            deployment=of.tree if isinstance(of, Subject) else of.name,
            serial=serial if self._serials else None,
            born_at=born,
            names=of.names,
        )

    def _containers(self) -> tuple[Container, ...]:
        return tuple(self._container(one) for one in self._kubelet.subjects if one.runs)

    def _container(self, one: Subject) -> Container:
        timeline = self._host.timeline
        sight = Sight(problem="Permission denied") if one.blind else self._sight(one, one.shows, one.serial, None)
        return Container(
            id=one.id,
            name=one.name,
            pod=Pod(namespace=one.namespace, name=one.pod, uid=one.uid),
            attempt=one.attempt,
            sandbox_id=one.sandbox_id,
            pid=4000,
            started_boottime=one.started - timeline.booted,
            started_at=timeline.wall() - (timeline.now - one.started),
            mount_namespace=4026540000,
            binder=_BINDER
            if one.shim is None
            else Binder(pid=3001, mount_namespace=FIRST_SHIM + self._kubelet.subjects.index(one)),
            binds=(Bind(host_path=CNI, path=f"/host{CNI}", writable=one.writable, propagated=False, sight=sight),),
        )

    def _references(self) -> tuple[Reference, ...]:
        cni, mounted = self._host.cni, self._host.etc[-1]
        sight = self._sight(cni, cni.inode, mounted.serial, cni.born)
        seen = {HOST_NAMESPACE: sight}
        if self._runtime.keeps is not None:
            seen[RUNTIME_NAMESPACE] = self._kept(self._runtime.keeps)
        for index, one in enumerate(self._kubelet.subjects):
            if one.shim is not None:
                seen[FIRST_SHIM + index] = self._kept(one.shim)
        return tuple(Reference(host_path=CNI, mount_namespace=where, sight=what) for where, what in seen.items())

    def _kept(self, tree: Tree) -> Sight:
        return self._sight(tree, tree.inode, tree.serial, None)

    def _daemon(self) -> Daemon:
        namespace = HOST_NAMESPACE if self._runtime.keeps is None else RUNTIME_NAMESPACE
        return Daemon(kind="runtime", name="containerd", pid=800, mount_namespace=namespace, unit="containerd.service")

    def _live(self) -> Live:
        host = self._host
        etc, usr = host.etc[-1].deployment, host.usr[-1].deployment
        newest = host.newest
        return Live(
            deployments=Deployments(
                booted=host.booted.name,
                etc=etc.name,
                usr=usr.name,
                pending=newest.name if newest not in (host.booted, etc) else "",
            ),
            usr_class="self" if usr is host.booted else "other-deployment",
            fingerprint=host.fingerprint,
            partial="/usr is of one deployment and /etc of another" if host.partial else "",
        )

    def _ostree(self) -> Ostree:
        root = Identity(dev=65024, ino=self._host.booted.number + 2)
        return Ostree(is_booted=True, root=root, recorded_root=root, next_root=self.next_root)

    def _lists(self) -> RuntimeView:
        if not self._runtime.lists:
            return RuntimeView(socket="", problem="no answer to ListPodSandbox")
        subjects = self._kubelet.subjects
        return RuntimeView(
            socket="/run/containerd/containerd.sock",
            pods=tuple(
                {
                    one.sandbox_id: RuntimePod(
                        sandbox_id=one.sandbox_id,
                        namespace=one.namespace,
                        name=one.pod,
                        uid=one.uid,
                        ready=one.sandbox_ready,
                        labels=_LABELS[one.labels],
                        annotations={},
                    )
                    for one in subjects
                }.values()
            ),
            containers=(
                *(
                    RuntimeContainer(
                        id=one.dead.id,
                        sandbox_id=one.dead.sandbox_id,
                        name=one.name,
                        attempt=one.dead.attempt,
                        running=False,
                        created_at=one.dead.created_at,
                        finished_at=one.dead.finished_at,
                    )
                    for one in subjects
                    if one.dead is not None and one.dead.id != one.id
                ),
                *self._living(),
            ),
        )

    def _living(self) -> list[RuntimeContainer]:
        return [
            RuntimeContainer(
                id=one.id,
                sandbox_id=one.sandbox_id,
                name=one.name,
                attempt=one.attempt,
                running=one.runs,
                created_at=one.created_at,
            )
            for one in self._kubelet.subjects
        ]

    def _kubelet_view(self) -> KubeletView:
        """As observe.kubelet judges it: from the process, from what it has started, and from its API server."""
        kubelet = self._kubelet
        if not kubelet.active:
            return KubeletView(refusal="kubelet-inactive", problem="no kubelet process is running")
        if not kubelet.has_started_one and not kubelet.api_server:
            return KubeletView(
                pid=900, refusal="api-server-out-of-reach", problem="it may have been restarted without its API server"
            )
        return KubeletView(pid=900, pods=tuple({one.uid for one in kubelet.subjects if one.pod_exists}))


def is_mounting(flags: tuple[Flag, ...]) -> bool:
    return any(flag.path == PENDING_FLAG for flag in flags)

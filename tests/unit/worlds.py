# SPDX-License-Identifier: Apache-2.0
"""A readable builder of Snapshots: `world().container("calico-node").bind(CNI, OLD).host(CNI, NEW).snapshot()`.

A world starts as a healthy, patched StarlingX-like node on which nothing is wrong: systemd runs, the runtime and a
standalone kubelet answer, the ledger is empty. Every method changes one thing and returns the builder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Optional

import msgspec

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
    OutcomeName,
    PastAct,
    Pause,
    Pod,
    Reference,
    RpmOstreeView,
    RuntimeContainer,
    RuntimePod,
    RuntimeView,
    Sight,
    Snapshot,
    StaticPod,
    Subject,
    Switch,
    SystemView,
)
from ostreewatchd.platforms import GENERIC

CNI = "/etc/cni/net.d"
OLD_NAME, NEW_NAME = f"debian-{'a' * 64}.0", f"debian-{'b' * 64}.0"
BOOT = "6f0e2a34-0000-4000-8000-000000000001"
HOST, RUNTIME = 4026531841, 4026532999
"""Mount namespaces: PID 1's, and one of the runtime's own."""
NOW = 1_800_000_000.0
UPTIME = 100_000.0
BOOTED_AT = NOW - UPTIME

DAEMON_SET = {"controller-revision-hash": "5d8f", "pod-template-generation": "1"}


def there(
    ino: int,
    *,
    dev: int = 65024,
    of: str = "",
    serial: Optional[int] = None,
    born: Optional[float] = None,
    **more: Any,
) -> Sight:
    """Something that is there."""
    line = f"131 130 8:1 /{of or 'x'} / rw - ext4 /dev/vda1 rw" if of else ""
    return Sight(
        identity=Identity(dev=dev, ino=ino), deployment=of, mount=line, serial=serial, born_at=born, **more
    )  # fmt: skip


def gone(problem: str = "No such file or directory") -> Sight:
    return Sight(problem=problem)


# The identities that were measured on a node (a second deployment's net.d has another inode on the same device). The
# container's bind is older than the host's mount: it was started before the switch.
OLD = there(10347112, of=OLD_NAME, serial=500, names=("10-calico.conflist",))
NEW = there(10371999, of=NEW_NAME, serial=900, names=("10-calico.conflist",), born=NOW - 600)


def hex_id(*parts: object) -> str:
    """A container's id that is the same in each run."""
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


class World:
    """The builder."""

    def __init__(self) -> None:
        self._containers: list[Container] = []
        self._pods: dict[str, RuntimePod] = {}
        self._running: list[RuntimeContainer] = []
        self._references: dict[tuple[str, int], Sight] = {}
        self._parts: dict[str, Any] = {
            "live": Live(
                deployments=Deployments(booted=OLD_NAME, etc=NEW_NAME, usr=NEW_NAME),
                usr_class="other-deployment",
                fingerprint="after",
            ),
            "flags": (),
            "history": History(),
            "system": SystemView(state="running"),
            "kubelet": KubeletView(pid=900),
            "cni_directories": (CNI,),
            "writers": GENERIC.writers,
            "self_written": GENERIC.self_written,
        }
        self._runtime_problem: Optional[str] = None

    def container(
        self,
        name: str,
        *,
        pod: str = "",
        namespace: str = "kube-system",
        attempt: int = 0,
        started: float = 1000.0,
        labels: Optional[dict[str, str]] = None,
        annotations: Optional[dict[str, str]] = None,
        binder: int = HOST,
        id: str = "",
        known: bool = True,
        wall: float = 0.0,
    ) -> World:
        """A running container of a DaemonSet's pod; `started` is in seconds since boot. The binds that follow are
        its own. `wall`: seconds by which the wall clock has been set back since it was made."""
        pod = pod or f"{name}-x1"
        uid = f"uid-of-{pod}"
        one = Container(
            id=id or hex_id(pod, name, attempt),
            name=name,
            pod=Pod(namespace=namespace, name=pod, uid=uid),
            attempt=attempt,
            pid=4000 + len(self._containers),
            started_boottime=started,
            started_at=BOOTED_AT + started,
            mount_namespace=4026540000 + len(self._containers),
            binder=Binder(pid=3000, mount_namespace=binder),
        )
        self._containers.append(one)
        if known:
            sandbox = hex_id(pod, "sandbox")
            self._pods[sandbox] = RuntimePod(
                sandbox_id=sandbox, namespace=namespace, name=pod, uid=uid, ready=True,
                labels=DAEMON_SET if labels is None else labels, annotations=annotations or {},
            )  # fmt: skip
            self._running.append(
                RuntimeContainer(
                    id=one.id,
                    sandbox_id=sandbox,
                    name=name,
                    attempt=attempt,
                    running=True,
                    created_at=BOOTED_AT + started + wall,
                )  # fmt: skip
            )
        return self

    def ended(self, *, attempt: int, created: float, finished: float) -> World:
        """An earlier container of the last one's name is still listed; in seconds since boot."""
        last = self._running[-1]
        self._running.append(
            RuntimeContainer(
                id=hex_id(last.id, attempt),
                sandbox_id=last.sandbox_id,
                name=last.name,
                attempt=attempt,
                running=False,
                created_at=BOOTED_AT + created,
                finished_at=BOOTED_AT + finished,
            )  # fmt: skip
        )
        return self

    def daemon(self, *, namespace: int = HOST, name: str = "containerd", unit: str = "containerd.service") -> World:
        """A container runtime runs in this mount namespace."""
        one = Daemon(kind="runtime", name=name, pid=800, mount_namespace=namespace, unit=unit)
        self._parts["daemons"] = (*self._parts.get("daemons", ()), one)
        return self

    def pause(self, *, seconds: float = 7200.0, ago: float = 60.0, boot: str = BOOT, problem: str = "") -> World:
        """A person ordered a pause `ago` seconds ago."""
        order = Pause(since=NOW - ago, since_boottime=UPTIME - ago, boot_id=boot, seconds=seconds, who="ops",
                      why="a demo", problem=problem)  # fmt: skip
        return self.history(pause=order)

    def leave(self, name: str) -> World:
        """The container of this name does not run any more; its sandbox is still up."""
        self._containers = [one for one in self._containers if one.name != name]
        self._running = [one for one in self._running if one.name != name]
        return self

    def sandbox_ends(self, name: str) -> World:
        """The sandbox of the pod of this name is listed, and not ready."""
        for id, pod in self._pods.items():
            if pod.name == f"{name}-x1":
                self._pods[id] = msgspec.structs.replace(pod, ready=False)
        return self

    def nameless(self) -> World:
        """The last container is one of which neither bundle nor log link tell whose it is."""
        return self._change(name="", pod=Pod(namespace="", name="", uid=""))

    def bind(
        self,
        host_path: str,
        sight: Sight,
        *,
        path: str = "",
        via: str = "",
        writable: bool = True,
        propagated: bool = False,
    ) -> World:
        """The last container has `host_path`."""
        bind = Bind(
            host_path=host_path, path=path or f"/host{host_path}".rstrip("/"), via=via, writable=writable,
            propagated=propagated, sight=sight,
        )  # fmt: skip
        binds = sorted((*self._containers[-1].binds, bind), key=lambda one: (one.path, one.host_path))
        return self._change(binds=tuple(binds))

    def _change(self, **what: Any) -> World:
        self._containers[-1] = msgspec.structs.replace(self._containers[-1], **what)
        return self

    def host(self, host_path: str, sight: Sight, *, namespace: int = HOST) -> World:
        """What the path is on the host now, in PID 1's mount namespace or in another one."""
        self._references[host_path, namespace] = sight
        return self

    def flag(self, path: str = "/run/mount_pending", *, always: bool = True, age: float = 1.0) -> World:
        self._parts["flags"] = (*self._parts["flags"], Flag(path=path, means="under way", always=always, age=age))
        return self

    def partial(self) -> World:
        """/usr is switched and /etc is not."""
        names = Deployments(booted=OLD_NAME, etc=OLD_NAME, usr=NEW_NAME)
        return self.live(deployments=names, partial="/usr is of one deployment and /etc of another")

    def live(self, **what: Any) -> World:
        self._parts["live"] = msgspec.structs.replace(self._parts["live"], **what)
        return self

    def switch(self, id: str = "s1", *, fingerprint: str = "after", seen: float = UPTIME - 60) -> World:
        """The ledger knows this switch as the newest; `seen` is in seconds since boot."""
        known = Switch(
            id=id, fingerprint=fingerprint, boot_id=BOOT, deployment=NEW_NAME, seen_at=BOOTED_AT + seen,
            seen_boottime=seen,
        )  # fmt: skip
        return self.history(switch=known)

    def before(self, *, boot: str = BOOT) -> World:
        """The ledger knew the state before that switch too."""
        known = Switch(id="s0", fingerprint="before", boot_id=boot, deployment=OLD_NAME, seen_at=BOOTED_AT + 30,
                       seen_boottime=30.0)  # fmt: skip
        return self.history(before=known)

    def history(self, **what: Any) -> World:
        self._parts["history"] = msgspec.structs.replace(self._parts["history"], **what)
        return self

    def act(
        self,
        *,
        switch: str = "s1",
        container_id: str = "",
        pod_uid: str = "",
        name: str = "",
        outcome: OutcomeName = "",
        step: str = "stop-container",
        ago: float = 30.0,
        boot: str = BOOT,
        failure: str = "",
    ) -> World:
        """The ledger has an act; on the last container unless told otherwise."""
        one, acts = self._containers[-1], self._parts["history"].acts
        subject = Subject(
            namespace=one.pod.namespace, pod=one.pod.name, pod_uid=pod_uid or one.pod.uid,
            container=name or one.name, container_id=container_id or one.id,
        )  # fmt: skip
        past = PastAct(
            id=len(acts) + 1, switch_id=switch, step=step, subject=subject, because="b",
            intent_at=NOW - ago, outcome=outcome, outcome_at=NOW - ago + 1 if outcome else None,
            proof="p" if outcome else "", intent_boottime=UPTIME - ago, boot_id=boot, failure=failure,
        )  # fmt: skip
        return self.history(acts=(*acts, past))

    def system(self, **what: str) -> World:
        self._parts["system"] = SystemView(**what)
        return self

    def kubelet(self, **what: Any) -> World:
        self._parts["kubelet"] = KubeletView(**what)
        return self

    def rpm_ostree(self, **what: Any) -> World:
        self._parts["rpm_ostree"] = RpmOstreeView(**what)
        return self

    def static_pod(self, name: str, policy: str, *, namespace: str = "kube-system") -> World:
        """kubelet has a manifest of this pod."""
        pod = StaticPod(
            namespace=namespace, name=name, restart_policy=policy, manifest=f"/etc/kubernetes/manifests/{name}.yaml"
        )
        kubelet = self._parts["kubelet"]
        self._parts["kubelet"] = msgspec.structs.replace(kubelet, static_pods=(*kubelet.static_pods, pod))
        return self

    def runtime(self, *, problem: str) -> World:
        self._runtime_problem = problem
        return self

    def not_asked(self) -> World:
        """As the watcher looks: no process was asked anything."""
        self._parts.update(system=None, kubelet=None)
        self._runtime_problem = "not asked"
        return self

    def part(self, **what: Any) -> World:
        """Any other field of the Snapshot."""
        self._parts.update(what)
        return self

    def snapshot(self) -> Snapshot:
        references = tuple(
            Reference(host_path=path, mount_namespace=namespace, sight=sight)
            for (path, namespace), sight in sorted(self._references.items())
        )
        runtime: Optional[RuntimeView] = RuntimeView(
            socket="/run/containerd/containerd.sock",
            pods=tuple(self._pods.values()),
            containers=tuple(self._running),
        )
        if self._runtime_problem is not None:
            runtime = RuntimeView(socket="", problem=self._runtime_problem)
        if self._runtime_problem == "not asked":
            runtime = None
        return Snapshot(
            product="0", taken_at=NOW, taken_boottime=UPTIME, init_mount_namespace=HOST,
            node=Node(name="node0", boot_id=BOOT, kernel="6.18", platform="generic"),
            container_count=len(self._containers), containers=tuple(self._containers), references=references,
            runtime=runtime, **self._parts,
        )  # fmt: skip


def world() -> World:
    return World()


def stale(name: str = "calico-node", **more: Any) -> World:
    """The seed's bug: a token writer that kept the old deployment's CNI directory, writable."""
    return world().host(CNI, NEW).container(name, **more).bind(CNI, OLD)


def names(things: Iterable[Any]) -> list[str]:
    return [thing.name for thing in things]

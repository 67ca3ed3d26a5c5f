# SPDX-License-Identifier: Apache-2.0
"""Which containers the node has, what each holds of the host's tree, and so what a right scan must find."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import NamedTuple

ACTIVE, PENDING = f"{'a1' * 32}.0", f"{'b2' * 32}.0"
"""The booted deployment and the one that a patch mounts over it."""

_AGENTS = 5
_NAMESPACE = "kube-bench"
_TOKEN = "/run/secrets/kubernetes.io/serviceaccount"


class Volume(NamedTuple):
    """A hostPath volume."""

    host_path: str
    inside: str
    mode: str
    """rw, ro, or slave (writable, HostToContainer)."""


NET_D = Volume("/etc/cni/net.d", "/host/etc/cni/net.d", "rw")
MODULES = Volume("/lib/modules", "/lib/modules", "ro")
ROOT = Volume("/", "/host", "ro")
ROOT_SLAVE = Volume("/", "/host", "slave")


class Container(NamedTuple):
    id: str
    name: str
    snapshot: int
    processes: int
    volumes: tuple[Volume, ...]
    is_sandbox: bool


class Pod(NamedTuple):
    name: str
    uid: str
    containers: tuple[Container, ...]
    """The sandbox first."""

    @property
    def sandbox(self) -> str:
        return self.containers[0].id


class Expected(NamedTuple):
    """A stale finding after the patch."""

    container_id: str
    path: str
    inside: str
    owed: bool


def _digest(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


def plan(count: int) -> list[Pod]:
    """Pods with `count` mount namespaces: a sandbox and two containers each. One namespace in twenty has net.d
    writable, one in twenty /lib/modules read-only. `/` is for a node's agents, which do not grow with its pods:
    five, one of them with the host's later mounts. One container in four has three processes."""
    pods: list[Pod] = []
    left, app, snapshot = count, 0, 100
    while left > 0:
        number = len(pods)
        uid = _digest("pod", number)
        members = []
        for place in range(min(3, left)):
            volumes: tuple[Volume, ...] = ()
            if place:
                app += 1
                volumes = _volumes(app, count)
            members.append(
                Container(
                    id=_digest("container", number, place),
                    name=f"c{place}" if place else "pause",
                    snapshot=snapshot,
                    processes=3 if place and app % 4 == 0 else 1,
                    volumes=volumes,
                    is_sandbox=not place,
                )
            )
            snapshot += 1
        left -= len(members)
        pods.append(Pod(f"bench-{number}", "-".join((uid[:8], uid[8:12], uid[12:16], uid[16:20], uid[20:32])),
                        tuple(members)))  # fmt: skip
    return pods


def _volumes(app: int, count: int) -> tuple[Volume, ...]:
    # Spread over the node's life: a later one is given more mounts of the host.
    agents = {1: ROOT_SLAVE} | {count * 2 // 3 * part // _AGENTS: ROOT for part in range(1, _AGENTS)}
    if app in agents:
        return (agents[app],)
    # Of three namespaces two are containers: 3 of 40 containers are 1 of 20 namespaces.
    return {5: (NET_D,), 18: (NET_D,), 31: (NET_D,), 9: (MODULES,), 22: (MODULES,), 35: (MODULES,)}.get(app % 40, ())


def expected(pods: list[Pod]) -> set[Expected]:
    """What a right scan says is stale after the patch."""
    found = set()
    for pod in pods:
        for container in pod.containers:
            for volume in container.volumes:
                if volume is ROOT:
                    for path in ("/usr", "/etc"):
                        found.add(Expected(container.id, path, volume.inside + path, False))
                elif volume is not ROOT_SLAVE:
                    found.add(Expected(container.id, volume.host_path, volume.inside, volume is NET_D))
    return found


def commands(pod: Pod) -> Iterator[str]:
    """What the node is told to start the pod."""
    yield f"pod {pod.uid} {pod.sandbox}"
    for one in pod.containers:
        binds = ";".join(f"{volume.host_path}>{volume.inside}>{volume.mode}" for volume in one.volumes) or "-"
        kind = "sandbox" if one.is_sandbox else "app"
        yield f"container {one.id} {one.name} {kind} {one.snapshot} {one.processes} {binds}"
    yield "start"


def log_link(pod: Pod, one: Container) -> tuple[str, str]:
    """Name and target of the link below /var/log/containers."""
    name = f"{pod.name}_{_NAMESPACE}_{one.name}-{one.id}.log"
    return name, f"/var/log/pods/{_NAMESPACE}_{pod.name}_{pod.uid}/{one.name}/0.log"


def bundle(pod: Pod, one: Container) -> bytes:
    """A config.json as containerd's CRI writes it, some 10 KiB; half of them with a seccomp profile (25 KiB)."""
    kubelet = f"/var/lib/kubelet/pods/{pod.uid}"
    sandboxes = f"/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes/{pod.sandbox}"
    mounts: list[dict[str, object]] = [
        _mount(kind, at, kind, "nosuid", "noexec", "nodev")
        for kind, at in (("proc", "/proc"), ("tmpfs", "/dev"), ("devpts", "/dev/pts"), ("mqueue", "/dev/mqueue"),
                         ("sysfs", "/sys"), ("cgroup", "/sys/fs/cgroup"))
    ]  # fmt: skip
    binds = [(f"{sandboxes}/hostname", "/etc/hostname"), (f"{sandboxes}/resolv.conf", "/etc/resolv.conf"),
             (f"/run/containerd/io.containerd.grpc.v1.cri/sandboxes/{pod.sandbox}/shm", "/dev/shm")]  # fmt: skip
    if not one.is_sandbox:
        binds += [(f"{kubelet}/etc-hosts", "/etc/hosts"),
                  (f"{kubelet}/containers/{one.name}/log", "/dev/termination-log"),
                  (f"{kubelet}/volumes/kubernetes.io~configmap/config", "/config"),
                  (f"{kubelet}/volumes/kubernetes.io~projected/token", _TOKEN)]  # fmt: skip
    binds += [(volume.host_path, volume.inside) for volume in one.volumes]
    mounts += [_mount("bind", inside, source, "rbind", "rprivate", "rw") for source, inside in binds]
    prefix = "io.kubernetes.cri."
    notes = {
        f"{prefix}container-type": "sandbox" if one.is_sandbox else "container",
        f"{prefix}sandbox-id": pod.sandbox,
        f"{prefix}sandbox-name": pod.name,
        f"{prefix}sandbox-namespace": _NAMESPACE,
        f"{prefix}sandbox-uid": pod.uid,
    }
    if not one.is_sandbox:
        notes |= {f"{prefix}container-name": one.name, f"{prefix}image-name": "registry.invalid/bench:1"}
    capabilities = [
        f"CAP_{name}" for name in ("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "SETGID", "SETUID")
    ]
    linux: dict[str, object] = {
        "resources": {"devices": [{"allow": True, "type": "c", "major": 1, "minor": n} for n in range(12)]},
        "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
        "maskedPaths": [f"/proc/{name}" for name in ("acpi", "kcore", "keys", "latency_stats", "timer_list", "scsi")],
    }  # fmt: skip
    if int(one.id[:2], 16) % 2:
        rules = [{"names": [f"system_call_{n}"], "action": "SCMP_ACT_ALLOW"} for n in range(260)]
        linux["seccomp"] = {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": rules}
    spec = {
        "ociVersion": "1.1.0",
        "process": {
            "user": {"uid": 0, "gid": 0},
            "args": ["/usr/bin/program", "--config=/config/program.yaml"],
            "env": [f"BENCH_SERVICE_PORT_{n}=tcp://10.96.{n % 250}.1:443" for n in range(90)],
            "capabilities": dict.fromkeys(("bounding", "effective", "permitted", "inheritable"), capabilities),
        },
        "mounts": mounts,
        "annotations": notes,
        "linux": linux,
    }
    return json.dumps(spec).encode()


def _mount(kind: str, at: str, source: str, *options: str) -> dict[str, object]:
    return {"destination": at, "type": kind, "source": source, "options": list(options)}

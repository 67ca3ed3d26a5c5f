# SPDX-License-Identifier: Apache-2.0
"""Whose container it is: by its bundle's annotations, else by the names below /var/log/containers. No credentials,
and the runtime is not asked."""

from __future__ import annotations

from typing import NamedTuple, Optional

from ostreewatchd.model import Pod, Problem
from ostreewatchd.observe.host import Host
from ostreewatchd.observe.processes import ContainerProcess
from ostreewatchd.parse import bundle, cgroup, podlogs
from ostreewatchd.parse.bundle import Bundle
from ostreewatchd.peers import proc
from ostreewatchd.platforms import Platform

_LOGS = "/var/log/containers"
_POD_LOGS = "/var/log/pods"
_PID_FILES = ("init.pid", "pidfile")
"""Of containerd's shim, and of conmon."""


class Owner(NamedTuple):
    """Empty where nothing tells."""

    pod: Pod
    container: str
    attempt: Optional[int]
    sandbox_id: str


class Owners:
    """One look's bundles and log names; `problems` gets what cannot be read."""

    def __init__(self, host: Host, platform: Platform, problems: list[Problem]) -> None:
        self._host = host
        self._platform = platform
        self._problems = problems
        self._links: Optional[dict[str, str]] = None

    def bundle(self, container_id: str) -> Optional[Bundle]:
        """What the container was started with; None if no runtime left that where it is looked for."""
        for pattern in self._platform.bundles:
            path = pattern.format(id=container_id)
            try:
                return bundle.parse(self._host.root.read(path, bundle.MAX_BYTES))
            except FileNotFoundError:
                continue
            except OSError as error:
                self._problems.append(Problem(where=path, what=error.strerror or str(error)))
            except bundle.BundleError as error:
                self._problems.append(Problem(where=path, what=str(error)))
        return None

    def first_process(self, container_id: str) -> Optional[int]:
        """Its pid as the runtime noted it beside the bundle; None if it did not, or nobody has that pid any more."""
        for pattern in self._platform.bundles:
            folder = pattern.format(id=container_id).rpartition("/")[0]
            for name in _PID_FILES:
                try:
                    text = self._host.root.read(f"{folder}/{name}", 32).strip()
                except OSError:
                    continue
                pid = int(text) if text.isdigit() else 0
                try:
                    return pid if pid and proc.mount_namespace(pid) is not None else None
                except proc.Unreadable:
                    return None
        return None

    def is_in(self, pid: int, container_id: str) -> bool:
        """Whether the process is the container's: of another one it may have the pid by now, or the runtime counts
        in a pid namespace of its own, or somebody took it out of its cgroup."""
        try:
            groups = proc.read(pid, "cgroup")
        except proc.Unreadable:
            return False
        return bool(groups and cgroup.container_id(groups, self._host.around) == container_id)

    def of(self, process: ContainerProcess, spec: Optional[Bundle]) -> Owner:
        """Whose container it is: by the bundle's annotations, else by the log link. The attempt is known from the
        link alone, and only where that is of the same pod."""
        link = self._log_link(process.container_id)
        name = podlogs.parse_link(link) if link else None
        target: Optional[podlogs.LogTarget] = None
        if name is not None:
            try:
                target = podlogs.parse_target(self._host.root.readlink(f"{_LOGS}/{link}"))
            except OSError:
                target = None
        if spec is not None and spec.pod:
            pod = Pod(namespace=spec.namespace, name=spec.pod, uid=spec.pod_uid)
            attempt = target.attempt if target and target.uid == spec.pod_uid else None
            return Owner(pod, spec.container, attempt, spec.sandbox_id)
        if target is not None:
            pod = Pod(namespace=target.namespace, name=target.pod, uid=target.uid)
            return Owner(pod, target.container, target.attempt, "")
        where = f"container {process.container_id[:12]}"
        self._problems.append(Problem(where=where, what="neither its bundle nor a log link says whose it is"))
        return Owner(Pod(namespace="", name="", uid=self._pod_uid(process)), "", None, "")

    def pod_by_uid(self, uid: str) -> Pod:
        """By the pod's log directory, `<namespace>_<name>_<uid>`; without names where none is there."""
        try:
            names = self._host.root.names(_POD_LOGS) if uid else []
        except OSError:
            names = []
        target = next((podlogs.parse_directory(name) for name in names if name.endswith(f"_{uid}")), None)
        return Pod(namespace=target[0] if target else "", name=target[1] if target else "", uid=uid)

    def _pod_uid(self, process: ContainerProcess) -> str:
        """By its cgroup's path; empty where that does not have it, or the pid is another process's by now."""
        try:
            groups = proc.read(process.pid, "cgroup") or b""
        except proc.Unreadable:
            return ""
        is_its = cgroup.container_id(groups, self._host.around) == process.container_id
        return cgroup.pod_uid(groups, self._host.around) if is_its else ""

    def _log_link(self, container_id: str) -> str:
        if self._links is None:
            try:
                names = self._host.root.names(_LOGS)
            except FileNotFoundError:
                names = []
            except OSError as error:
                names = []
                self._problems.append(Problem(where=_LOGS, what=error.strerror or str(error)))
            # `…-<64 hex>.log`: the id stands at a fixed place from the end.
            self._links = {name[-68:-4]: name for name in names if name.endswith(".log")}
        return self._links.get(container_id, "")

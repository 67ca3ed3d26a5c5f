# SPDX-License-Identifier: Apache-2.0
"""Which processes are containers' own, one look per mount namespace; remembers what cannot have changed.

A process that was judged once is held by a pidfd, which tells its end without reading anything: a look at which
nothing new has started reads only the list of pids."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from typing import NamedTuple, Optional

from ostreewatchd.model import Problem
from ostreewatchd.parse import cgroup
from ostreewatchd.peers import proc

_MAX_HELD = 32768
_MAX_PROBLEMS = 50
_BECOMES_WITHIN = 10.0
"""Seconds after its start in which a process is judged anew at each look."""


class ContainerProcess(NamedTuple):
    """A container's first process."""

    pid: int
    mount_namespace: int
    container_id: str
    cgroup_pod_uid: str


class Processes:
    """The containers' first processes. `remember=False` for a program that looks once or twice."""

    def __init__(self, *, remember: bool) -> None:
        self._remember = remember
        self._held: dict[int, int] = {}
        self._ended = select.epoll() if remember else None
        self._containers: dict[int, ContainerProcess] = {}
        self._members: dict[int, int] = {}
        """Mount namespace by pid, of processes that are not in the host's."""

    def look(self, host_namespace: int) -> tuple[list[ContainerProcess], list[Problem]]:
        """All containers' first processes now, and what could not be read."""
        problems: list[Problem] = []
        # The ended ones first: a pid that is in the list below and held is then the process that was judged.
        self._forget_ended()
        fresh: dict[int, list[int]] = {}
        held, judged = self._held, []
        for pid in proc.pids():
            if pid in held:
                continue
            judged.append(pid)
            # Held before it is judged: should the pid be another process's by then, its end is told next time.
            self._hold(pid)
            try:
                namespace = proc.mount_namespace(pid)
            except proc.Unreadable as error:
                self._release(pid)
                if len(problems) < _MAX_PROBLEMS:
                    problems.append(Problem(where=f"process {pid}", what=error.what))
                continue
            if namespace is None:
                self._release(pid)
            elif namespace != host_namespace:
                fresh.setdefault(namespace, []).append(pid)
                if self._remember:
                    self._members[pid] = namespace
        known = {container.mount_namespace for container in self._containers.values()} if fresh else set()
        for namespace, members in fresh.items():
            if namespace in known:
                continue
            try:
                container = _container(namespace, members)
            except proc.Unreadable as error:
                if len(problems) < _MAX_PROBLEMS:
                    problems.append(Problem(where=f"process {members[0]}", what=error.what))
                continue
            if container is not None:
                self._containers[container.pid] = container
        result = _one_a_container(self._containers.values())
        if not self._remember:
            self._containers = {}
            return result, problems
        for pid in judged:
            if pid in held and pid not in self._containers and _is_young(pid):
                self._release(pid)
        return result, problems

    def forget(self) -> None:
        """Judge all anew at the next look."""
        for pid in list(self._held):
            self._release(pid)
        self._containers = {}

    def close(self) -> None:
        self.forget()
        if self._ended is not None:
            self._ended.close()
            self._ended = None

    def _hold(self, pid: int) -> None:
        if self._ended is None or len(self._held) >= _MAX_HELD:
            return
        try:
            fd = os.pidfd_open(pid)
        except OSError:
            return  # It ended, or descriptors are short: it is then judged anew at each look.
        self._held[pid] = fd
        self._ended.register(fd, select.EPOLLIN)

    def _forget_ended(self) -> None:
        if self._ended is None or not self._held:
            return
        ended = {fd for fd, _ in self._ended.poll(0, len(self._held))}
        if not ended:
            return
        orphaned = set()
        for pid, fd in list(self._held.items()):
            if fd in ended:
                namespace = self._members.get(pid)
                if self._containers.pop(pid, None) is not None and namespace is not None:
                    orphaned.add(namespace)
                self._release(pid)
        # A namespace whose first process ended is judged anew by those that live on.
        for pid in [pid for pid, namespace in self._members.items() if namespace in orphaned]:
            self._release(pid)

    def _release(self, pid: int) -> None:
        fd = self._held.pop(pid, None)
        self._members.pop(pid, None)
        if fd is not None:
            os.close(fd)  # That takes it out of the epoll, too: nobody else has it.


def _one_a_container(processes: Iterable[ContainerProcess]) -> list[ContainerProcess]:
    """A process of a container may have made a mount namespace of its own: the oldest is the container's."""
    first: dict[str, ContainerProcess] = {}
    for one in processes:
        other = first.setdefault(one.container_id, one)
        if other is not one and _started(one.pid) < _started(other.pid):
            first[one.container_id] = one
    return list(first.values())


def _started(pid: int) -> tuple[float, int]:
    """Orders processes by their start; one that has ended counts as the youngest."""
    stat = proc.stat(pid)
    return (stat.start_ticks if stat is not None else float("inf"), pid)


def _is_young(pid: int) -> bool:
    """Whether it may still become something else: a container's first process starts in the host's mount
    namespace and in another cgroup."""
    stat = proc.stat(pid)
    return stat is None or proc.boottime() - stat.start_ticks / proc.TICKS < _BECOMES_WITHIN


def _container(namespace: int, members: list[int]) -> Optional[ContainerProcess]:
    """The container of a mount namespace, by its oldest process; None if it is no container's (a service with
    a namespace of its own)."""
    oldest = members[0]
    if len(members) > 1:
        starts = [(stat.start_ticks, pid) for pid in members for stat in (proc.stat(pid),) if stat is not None]
        if not starts:
            return None
        oldest = min(starts)[1]
    groups = proc.read(oldest, "cgroup")
    container_id = cgroup.container_id(groups) if groups else ""
    if not groups or not container_id:
        return None
    return ContainerProcess(oldest, namespace, container_id, cgroup.pod_uid(groups))

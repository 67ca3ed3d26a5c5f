# SPDX-License-Identifier: Apache-2.0
"""Which process speaks for a container: its first one. What it forked may have another root directory or a mount
namespace of its own, what was put into it by exec too, and neither is a witness of what the container was given.

A process that was judged once is held by a pidfd, which tells its end without reading anything: a look at which
nothing new has started reads only the list of pids."""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from typing import NamedTuple, Optional

from ostreewatchd.model import Problem
from ostreewatchd.observe.host import Host
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


class _Member(NamedTuple):
    """A process of a container."""

    pid: int
    namespace: int
    pod_uid: str


class Processes:
    """The containers' first processes. `remember=False` for a program that looks once or twice."""

    def __init__(self, *, remember: bool, helper: Callable[[int], str] = lambda pid: "") -> None:
        """`helper`: what a process is, by name, that is of no container and matters to them; empty: it is none."""
        self._remember = remember
        self._helper = helper
        self._helpers: dict[int, str] = {}
        self.helpers: list[tuple[int, str]] = []
        """Of the last look: pid and name."""
        self._held: dict[int, int] = {}
        self._ended = select.epoll() if remember else None
        self._containers: dict[str, ContainerProcess] = {}
        self._members: dict[int, str] = {}
        """The container by pid."""

    def look(self, host: Host) -> tuple[list[ContainerProcess], list[Problem]]:
        """All containers' first processes now, and what could not be read."""
        problems: list[Problem] = []
        # The ended ones first: a pid that is in the list below and held is then the process that was judged.
        self._forget_ended()
        self._helpers = {pid: name for pid, name in self._helpers.items() if pid in self._held}
        fresh, judged = self._fresh(host.namespace, problems)
        around = host.around if fresh else frozenset()
        known = {container.mount_namespace: container.container_id for container in self._containers.values()}
        groups: dict[str, list[_Member]] = {}
        for pid, namespace in fresh:
            container_id = known.get(namespace, "")
            if container_id:
                self._note(pid, container_id)
                continue
            try:
                data = proc.read(pid, "cgroup")
            except proc.Unreadable as error:
                self._release(pid)
                _add(problems, pid, error)
                continue
            container_id = cgroup.container_id(data, around) if data else ""
            if not container_id:
                self._look_for_helper(pid)
            if data and container_id:
                self._note(pid, container_id)
                groups.setdefault(container_id, []).append(_Member(pid, namespace, cgroup.pod_uid(data, around)))
        for container_id, members in groups.items():
            if container_id in self._containers:
                continue
            try:
                first = _first(members)
            except proc.Unreadable as error:
                for one in members:
                    self._release(one.pid)
                _add(problems, members[0].pid, error)
                continue
            if first is not None:
                self._containers[container_id] = ContainerProcess(
                    first.pid, first.namespace, container_id, first.pod_uid
                )
        self.helpers = sorted(self._helpers.items())
        result = list(self._containers.values())
        if not self._remember:
            self._containers = {}
            return result, problems
        firsts = {one.pid for one in result}
        for pid in judged:
            if pid in self._held and pid not in firsts and _is_young(pid):
                self._release(pid)
        return result, problems

    def _fresh(self, host_namespace: int, problems: list[Problem]) -> tuple[list[tuple[int, int]], list[int]]:
        """Processes that were not judged before and are not in the host's mount namespace, with their own; and all
        that were not judged before."""
        fresh, held, judged = [], self._held, []
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
                _add(problems, pid, error)
                continue
            if namespace is None:
                self._release(pid)
            elif namespace != host_namespace:
                fresh.append((pid, namespace))
            else:
                self._look_for_helper(pid)
        return fresh, judged

    def _look_for_helper(self, pid: int) -> None:
        name = self._helper(pid)
        if name:
            self._helpers[pid] = name

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

    def _note(self, pid: int, container_id: str) -> None:
        """Remember whose it is, to judge it anew when the container's first process ends."""
        if pid in self._held:  # Of another one the end is not told; it is judged at each look.
            self._members[pid] = container_id

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
        if self._ended is None:
            return
        if not self._held:
            self._containers, self._members = {}, {}
            return
        ended = {fd for fd, _ in self._ended.poll(0, len(self._held))}
        if ended:
            for pid in [pid for pid, fd in self._held.items() if fd in ended]:
                self._release(pid)
        # A container whose first process ended, or could not be held, is judged anew by those who live on.
        lost = {one.container_id for one in self._containers.values() if one.pid not in self._held or _has_moved(one)}
        if lost:
            self._containers = {key: one for key, one in self._containers.items() if key not in lost}
            for pid in [pid for pid, container_id in self._members.items() if container_id in lost]:
                self._release(pid)

    def _release(self, pid: int) -> None:
        fd = self._held.pop(pid, None)
        self._members.pop(pid, None)
        self._helpers.pop(pid, None)
        if fd is not None:
            os.close(fd)  # That takes it out of the epoll, too: nobody else has it.


def _has_moved(process: ContainerProcess) -> bool:
    """Whether it is in another mount namespace by now (unshare, setns)."""
    try:
        return proc.mount_namespace(process.pid) != process.mount_namespace
    except proc.Unreadable:
        return True


def _is_young(pid: int) -> bool:
    """Whether it may still become something else: a container's first process starts in the host's mount
    namespace and in another cgroup."""
    stat = proc.stat(pid)
    return stat is None or proc.boottime() - stat.start_ticks / proc.TICKS < _BECOMES_WITHIN


def _first(members: list[_Member]) -> Optional[_Member]:
    """A container's first process: the oldest whose parent is not in the container. Of what the same clock tick
    started (a hundredth of a second), only the parent tells who was first. None: all have ended."""
    if len(members) == 1:
        return members[0]
    pids = {one.pid for one in members}
    ranked = [
        ((stat.parent in pids, stat.start_ticks, one.pid), one)
        for one in members
        for stat in (proc.stat(one.pid),)
        if stat is not None
    ]
    return min(ranked)[1] if ranked else None


def _add(problems: list[Problem], pid: int, error: proc.Unreadable) -> None:
    if len(problems) < _MAX_PROBLEMS:
        problems.append(Problem(where=f"process {pid}", what=error.what))

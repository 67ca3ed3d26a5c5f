# SPDX-License-Identifier: Apache-2.0
"""Which process speaks for a container: its first one. What it forked may have another root directory or a mount
namespace of its own, what was put into it by exec too, and neither is a witness of what the container was given.
Nor is what somebody who may write the host's cgroups put there before the container started: where more than one
process of a container has its parent elsewhere, the runtime's own note of the first one's pid decides.

A process that was judged once is held by a pidfd, which tells its end without reading anything: a look at which
nothing new has started reads only the list of pids."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Iterator, Set
from typing import NamedTuple, Optional

from ostreewatchd.model import Problem
from ostreewatchd.observe.host import Host
from ostreewatchd.parse import cgroup
from ostreewatchd.peers import proc

_MAX_HELD = 32768
_MAX_PROBLEMS = 50
_MAX_COMPARED = 32
_BECOMES_WITHIN = 10.0
"""Seconds after its start in which a process is judged anew at each look."""


class ContainerProcess(NamedTuple):
    """A container's first process."""

    pid: int
    mount_namespace: int
    container_id: str
    doubt: bool = False
    """Several may be it, they see different mounts, and the runtime left no note of which it is."""


class _Member(NamedTuple):
    """A process of a container."""

    pid: int
    namespace: int


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
        self.mighty: set[str] = set()
        """Containers whose first process may go into any mount namespace."""

    def look(
        self,
        host: Host,
        noted: Callable[[str], Optional[int]] = lambda container_id: None,
        holders: Set[str] = frozenset(),
    ) -> tuple[list[ContainerProcess], list[Problem]]:
        """All containers' first processes now, and what could not be read. `noted`: the pid of a container's first
        process as its runtime noted it, None if it did not. `holders`: containers of which it matters also if they
        only copied the mount namespace that they are in."""
        problems: list[Problem] = []
        # The ended ones first: a pid that is in the list below and held is then the process that was judged.
        self._forget_ended(holders)
        self._helpers = {pid: name for pid, name in self._helpers.items() if pid in self._held}
        fresh, judged = self._fresh(host.namespace, problems)
        around = host.around if fresh else frozenset()
        groups: dict[str, list[_Member]] = {}
        for pid, namespace in fresh:
            try:
                data = proc.read(pid, "cgroup")
            except proc.Unreadable as error:
                self._release(pid)
                _add(problems, pid, error)
                continue
            container_id = cgroup.container_id(data, around) if data else ""
            if not data or not container_id:
                self._look_for_helper(pid)
                continue
            self._note(pid, container_id)
            known = self._containers.get(container_id)
            if known is None or known.mount_namespace != namespace:
                # What is put into a container comes into the namespace that its first process is in: a probe.
                groups.setdefault(container_id, []).append(_Member(pid, namespace))
        doubtful = []
        for container_id, members in groups.items():
            try:
                first = self._decide(container_id, members, noted)
                is_mighty = first is not None and self._remember and proc.may_mount(first.pid)
            except proc.Unreadable as error:
                for one in members:
                    self._release(one.pid)
                _add(problems, members[0].pid, error)
                continue
            if first is None:
                continue
            self.mighty.discard(container_id)
            if is_mighty:
                self.mighty.add(container_id)
            if first.doubt:
                doubtful.append(first)
                self._containers.pop(container_id, None)
            else:
                self._containers[container_id] = first
        self.helpers = sorted(self._helpers.items())
        result = [*self._containers.values(), *doubtful]
        if not self._remember:
            self._containers = {}
            return result, problems
        firsts = {one.pid for one in result}
        for pid in judged:
            if pid in self._held and pid not in firsts and _is_young(pid):
                self._release(pid)
        self._release_all({one.container_id for one in doubtful})
        return result, problems

    def _decide(
        self, container_id: str, members: list[_Member], noted: Callable[[str], Optional[int]]
    ) -> Optional[ContainerProcess]:
        """Which one speaks for the container, of which `members` are new. None: it stays as it is. Raises
        Unreadable."""
        before = self._containers.get(container_id)
        if before is not None:
            known = [pid for pid, whose in self._members.items() if whose == container_id]
            pids = {*known, *(one.pid for one in members)}
            if not any(stat.parent not in pids for one in members for stat in (proc.stat(one.pid),) if stat):
                return None  # Its own children.
            new = {one.pid for one in members}
            members = [*members, *_members(pid for pid in known if pid not in new)]
        first, rivals = _first(members)
        doubt = False
        if len(rivals) > 1:
            pid = noted(container_id)
            by_note = next((one for one in members if one.pid == pid), None)
            first, doubt = by_note or first, by_note is None and not _see_the_same(rivals)
        if first is None or (before is not None and first.pid == before.pid and not doubt):
            return None
        return ContainerProcess(first.pid, first.namespace, container_id, doubt)

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
        self._containers, self.mighty = {}, set()

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

    def _forget_ended(self, holders: Set[str]) -> None:
        if self._ended is None:
            return
        if not self._held:
            self._containers, self._members, self.mighty = {}, {}, set()
            return
        ended = {fd for fd, _ in self._ended.poll(0, len(self._held))}
        if ended:
            for pid in [pid for pid, fd in self._held.items() if fd in ended]:
                self._release(pid)
        # A container whose first process ended, or could not be held, is judged anew by those who live on.
        # Who holds nothing of the host's tree and lacks the capability gets nothing of it by moving: in a user
        # namespace of its own it can but copy the mounts that it has (user_namespaces(7)).
        held, asked = self._held, self.mighty | holders
        lost = {
            container_id
            for container_id, one in self._containers.items()
            if one.pid not in held or (container_id in asked and _has_moved(one))
        }
        if lost:
            self.mighty -= lost
            self._containers = {key: one for key, one in self._containers.items() if key not in lost}
            self._release_all(lost)

    def _release_all(self, containers: Set[str]) -> None:
        """Judge all of these containers anew at the next look."""
        for pid in [pid for pid, container_id in self._members.items() if container_id in containers]:
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


def _first(members: list[_Member]) -> tuple[Optional[_Member], list[_Member]]:
    """A container's first process: the oldest whose parent is not in the container; and all whose parent is not. Of
    what the same clock tick started (a hundredth of a second), only the parent tells who was first. None: all have
    ended."""
    if len(members) == 1:
        return members[0], members
    pids = {one.pid for one in members}
    ranked = sorted(
        ((stat.parent in pids, stat.start_ticks, one.pid), one)
        for one in members
        for stat in (proc.stat(one.pid),)
        if stat is not None
    )
    return (ranked[0][1] if ranked else None), [one for (is_child, *_), one in ranked if not is_child]


def _members(pids: Iterable[int]) -> Iterator[_Member]:
    for pid in pids:
        namespace = proc.mount_namespace(pid)
        if namespace is not None:
            yield _Member(pid, namespace)


def _see_the_same(members: list[_Member]) -> bool:
    """Whether it matters which of them is asked: equal lines are of one namespace and one root."""
    if len({one.namespace for one in members}) > 1 or len(members) > _MAX_COMPARED:
        return False
    return len({hash(proc.read(one.pid, "mountinfo")) for one in members}) == 1


def _add(problems: list[Problem], pid: int, error: proc.Unreadable) -> None:
    if len(problems) < _MAX_PROBLEMS:
        problems.append(Problem(where=f"process {pid}", what=error.what))

# SPDX-License-Identifier: Apache-2.0
"""The credentials of CNI plugins: what the host has in its CNI directories, and what a container has there that holds
another directory than the host's, to be written.

As long as a container's directory is the host's own, so are the files in it, and none is read twice. Secrets are
compared here and kept nowhere (DESIGN invariant 10). A file that is being written is read again; if it is still not
whole, that is said, and the next look may find it whole (invariant 4)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Optional

import msgspec

from ostreewatchd.model import Bind, Container, Credential, Identity, Reference
from ostreewatchd.model.credential import WriterName
from ostreewatchd.observe.host import Host
from ostreewatchd.observe.projected import projected
from ostreewatchd.observe.roots import Roots
from ostreewatchd.parse import credential as files
from ostreewatchd.parse.mountinfo import covers
from ostreewatchd.peers import proc
from ostreewatchd.peers.paths import Root, What
from ostreewatchd.platforms import Platform
from ostreewatchd.platforms.writers import WRITERS, writer_of

_OTHERS = (".conf", ".conflist", ".json", ".new", ".tmp")
"""CNI configuration, and what is about to be renamed."""
_MAX_FILES = 32
"""Of one directory and those in it."""
_MAX_DIRECTORIES = 16
_TRIES, _PAUSE = 3, 0.005
"""A writer truncates and writes in one go: what is empty or cut off is whole a moment later. Seconds."""
_MOST_UNWHOLE = 4
"""Looks in a row that read a file which is not whole, before what was read of it is kept."""
_MAX_NAME = 128


class _Read(NamedTuple):
    """A credential, and its secret for as long as it is compared."""

    what: Credential
    secret: bytes

    def __repr__(self) -> str:
        """Without the secret, wherever it is printed."""
        return f"_Read({self.what!r})"


class Memory:
    """What the look before has read, for who looks again: as long as the host was not switched and no container holds
    another directory than before, and until it is told to forget. What was not whole is read again by the next looks;
    not by all of them, for a file may stay as it is."""

    def __init__(self, *, remember: bool) -> None:
        self._remember = remember
        self._unwhole = 0
        self._known: Optional[tuple[object, tuple[Credential, ...]]] = None

    def forget(self) -> None:
        """Read all anew the next time."""
        self._known, self._unwhole = None, 0

    def look(
        self,
        looking: Credentials,
        containers: Sequence[Container],
        references: Iterable[Reference],
        fingerprint: str,
    ) -> tuple[Credential, ...]:
        """As Credentials.look, if need be."""
        others = looking.others(containers, references)
        held = [(container.id, bind.path, bind.sight.identity) for container, binds in others for bind in binds]
        key = (fingerprint, held)
        if self._known is None or self._known[0] != key:
            found = looking.look(containers, others)
            self._unwhole = self._unwhole + 1 if any(one.problem for one in found) else 0
            is_to_keep = self._remember and not 0 < self._unwhole < _MOST_UNWHOLE
            self._known = (key, found) if is_to_keep else None
            return found
        return self._known[1]


Others = list[tuple[Container, list[Bind]]]
"""Containers that hold another directory than the host's, to be written."""


class Credentials:
    """One look's."""

    def __init__(self, host: Host, platform: Platform, cni_directories: Sequence[str], roots: Roots) -> None:
        self._host = host
        self._roots = roots
        self._pods = platform.pods
        self._directories = tuple(cni_directories)
        self._known_pods: dict[str, Optional[bool]] = {}

    def others(self, containers: Iterable[Container], references: Iterable[Reference]) -> Others:
        """Those whose files are others than the host's."""
        now = {
            one.host_path: one.sight.identity
            for one in references
            if one.mount_namespace == self._host.namespace and self._cni_directory(one.host_path)
        }
        found = [(one, [bind for bind in one.binds if _is_another(bind, now)]) for one in containers]
        return [(container, binds) for container, binds in found if binds]

    def look(self, containers: Sequence[Container], others: Others) -> tuple[Credential, ...]:
        """The host's, and those of containers whose directory is another one."""
        hosts = {one.what.path: one for one in self._of_host()}
        found = [self._with_projected(one) for one in hosts.values()]
        for container, binds in others:
            found += [_compared(one, hosts.get(one.what.path)) for one in self._of_container(container, binds)]
        return tuple(self._with_pod(one, containers) for one in found)

    def _of_host(self) -> Iterator[_Read]:
        for directory in self._directories:
            yield from self._below(self._host.root, directory, directory)
        for one in WRITERS:
            if one.file.startswith("/"):
                yield from self._file(self._host.root, one.file, one.file, "")

    def _of_container(self, container: Container, binds: Sequence[Bind]) -> list[_Read]:
        try:
            data = proc.read(container.pid, "mountinfo")
            root = self._roots.open(container.pid, self._roots.table(data)) if data else None
        except proc.Unreadable:
            return []
        if root is None:
            return []
        found: dict[str, _Read] = {}
        with root:
            for bind in binds:
                for one in self._below(root, bind.path, bind.host_path):
                    what = msgspec.structs.replace(one.what, container_id=container.id)
                    found.setdefault(what.path, one._replace(what=what))
            # The pid may be another process's by now.
            if proc.mount_namespace(container.pid) != container.mount_namespace:
                return []
        return list(found.values())

    def _cni_directory(self, path: str) -> str:
        return next((one for one in self._directories if covers(one, path)), "")

    def _below(self, root: Root, place: str, host_path: str) -> Iterator[_Read]:
        """`place` in the root is, or was, the host's `host_path`."""
        directory = self._cni_directory(host_path)
        left = _MAX_FILES
        for below in _folders(root, place, deeper=host_path == directory):
            for name in _names(root, place + below):
                if left <= 0:
                    return
                path = f"{host_path}{below}/{name}"
                read = list(self._file(root, f"{place}{below}/{name}", path, directory))
                left -= 1
                yield from read

    def _file(self, root: Root, place: str, path: str, directory: str) -> Iterator[_Read]:
        """The file, if it is there and one that is looked for."""
        writer = writer_of(path, directory)
        what, secret, problem = None, files.Found(b"", ""), ""
        for trial in range(_TRIES):
            if trial:
                time.sleep(_PAUSE)
            try:
                what = root.what(place)
                if what.is_directory:
                    return
                data = root.read(place, files.MAX_BYTES)
                after = root.what(place)
            except (FileNotFoundError, NotADirectoryError):
                return
            except OSError as error:
                if writer is not None:
                    text = f"cannot be read: {error.strerror}"
                    yield _Read(Credential(path=path, writer=writer.name, problem=text), b"")
                return
            if writer is None and not files.is_kubeconfig(data):
                return
            try:
                if (what.identity, what.modified) != (after.identity, after.modified):
                    raise files.CredentialError("is being written")
                secret = files.of_certificate(data) if path.endswith(".pem") else files.of_kubeconfig(data)
                problem = ""
                break
            except files.CredentialError as error:
                problem = str(error)
        yield _Read(_credential(path, writer.name if writer else "", what, secret, problem), secret.secret)

    def _with_projected(self, one: _Read) -> Credential:
        uid = one.what.pod_uid
        tokens = projected(self._host.root, self._pods, uid) if uid and one.secret else ()
        return msgspec.structs.replace(one.what, projected=one.secret in tokens if tokens else None)

    def _with_pod(self, one: Credential, containers: Iterable[Container]) -> Credential:
        uid = one.pod_uid
        if not uid:
            return one
        if uid not in self._known_pods:
            here = any(container.pod.uid == uid for container in containers)
            self._known_pods[uid] = True if here else self._kubelet_has(uid)
        return msgspec.structs.replace(one, pod_is_here=self._known_pods[uid])

    def _kubelet_has(self, uid: str) -> Optional[bool]:
        """By kubelet's own directory of the pod, which it keeps until the pod is gone from the node. Source:
        kubernetes pkg/kubelet/kubelet_getters.go (getPodDir), kubelet_volumes.go (cleanupOrphanedPodDirs)."""
        if "/" in uid or uid in (".", ".."):
            return None
        try:
            if self._host.root.exists(f"{self._pods}/{uid}"):
                return True
            return False if self._host.root.names(self._pods) else None
        except OSError:
            return None


def _is_another(bind: Bind, now: dict[str, Optional[Identity]]) -> bool:
    if bind.host_path not in now or not bind.writable or not bind.sight.is_directory:
        return False
    return bind.sight.identity is not None and bind.sight.identity != now[bind.host_path]


def _compared(mine: _Read, hosts: Optional[_Read]) -> Credential:
    same = mine.secret == hosts.secret if hosts is not None and mine.secret and hosts.secret else None
    return msgspec.structs.replace(mine.what, same=same)


def _credential(path: str, writer: WriterName, what: Optional[What], found: files.Found, problem: str) -> Credential:
    seconds, nanoseconds = what.modified if what is not None else (0, 0)
    return Credential(
        path=path,
        writer=writer,
        identity=what.identity if what is not None else None,
        modified_at=seconds + nanoseconds / 1e9,
        kind=found.kind,
        problem=problem,
        issued_at=found.issued_at,
        expires_at=found.expires_at,
        warn_after=found.warn_after,
        subject=found.subject,
        pod=found.pod,
        pod_uid=found.pod_uid,
        key_id=found.key_id,
    )


def _folders(root: Root, place: str, *, deeper: bool) -> Iterator[str]:
    """The directory itself, and those in it: as what is added to its path."""
    yield ""
    if not deeper:
        return
    count = 0
    for name in _names(root, place):
        try:
            is_directory = root.what(f"{place}/{name}", links=False).is_directory
        except OSError:
            continue
        if is_directory and count < _MAX_DIRECTORIES:
            count += 1
            yield f"/{name}"


def _names(root: Root, place: str) -> list[str]:
    """What may be a kubeconfig, or a directory with one."""
    try:
        names = root.names(place)
    except OSError:
        return []
    return [name for name in names if not name.endswith(_OTHERS) and len(name) <= _MAX_NAME][:_MAX_FILES]

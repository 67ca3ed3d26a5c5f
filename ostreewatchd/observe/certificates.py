# SPDX-License-Identifier: Apache-2.0
"""The certificates of a control plane, where a container holds an old directory of them: its own and the host's. Only
files that are named as certificates are opened, and only the end and the subject of each are kept.

Source: kubeadm's layout of /etc/kubernetes/pki (kubernetes.io, PKI certificates and requirements)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ostreewatchd.model import Bind, Certificate, Container, Reference
from ostreewatchd.observe.host import Host
from ostreewatchd.observe.roots import Roots
from ostreewatchd.parse import x509
from ostreewatchd.parse.mountinfo import covers
from ostreewatchd.peers import proc
from ostreewatchd.peers.paths import Root

_NAMES = (".crt", ".pem")
_BELOW = ("", "etcd/")
_MAX_FILES = 64


def with_certificates(
    host: Host,
    containers: Sequence[Container],
    references: Sequence[Reference],
    directories: Iterable[str],
    roots: Roots,
) -> tuple[list[Container], list[Reference]]:
    """The same, with the certificates of those that differ: nothing is read as long as all are the host's own."""
    places = tuple(directories)
    now = {one.host_path: one for one in references if one.mount_namespace == host.namespace}
    stale: set[str] = set()
    changed = []
    for container in containers:
        binds = [bind for bind in container.binds if _is_old(bind, now, places)]
        if binds:
            stale.update(bind.host_path for bind in binds)
            changed.append(_of_container(container, binds, roots))
        else:
            changed.append(container)
    if not stale:
        return changed, list(references)
    return changed, [
        _of_host(host, one) if one.host_path in stale and one.mount_namespace == host.namespace else one
        for one in references
    ]


def _is_old(bind: Bind, now: dict[str, Reference], places: tuple[str, ...]) -> bool:
    if not any(covers(place, bind.host_path) for place in places) or not bind.sight.is_directory:
        return False
    reference = now.get(bind.host_path)
    mine = bind.sight.identity
    return reference is not None and mine is not None and reference.sight.identity not in (None, mine)


def _of_container(container: Container, binds: Sequence[Bind], roots: Roots) -> Container:
    try:
        data = proc.read(container.pid, "mountinfo")
        root = roots.open(container.pid, roots.table(data)) if data else None
    except proc.Unreadable:
        return container
    if root is None:
        return container
    with root:
        read = {bind.path: _read(root, bind.path) for bind in binds}
        if proc.mount_namespace(container.pid) != container.mount_namespace:
            return container  # The pid is another process's by now.
    return msgspec.structs.replace(
        container,
        binds=tuple(
            msgspec.structs.replace(bind, sight=msgspec.structs.replace(bind.sight, certificates=read[bind.path]))
            if bind.path in read
            else bind
            for bind in container.binds
        ),
    )


def _of_host(host: Host, reference: Reference) -> Reference:
    found = _read(host.root, reference.host_path)
    return msgspec.structs.replace(reference, sight=msgspec.structs.replace(reference.sight, certificates=found))


def _read(root: Root, directory: str) -> tuple[Certificate, ...]:
    found: list[Certificate] = []
    files = 0
    for below in _BELOW:
        try:
            names = root.names(f"{directory}/{below}")
        except OSError:
            continue
        for name in names:
            if not name.endswith(_NAMES) or "key" in name or files >= _MAX_FILES:
                continue
            files += 1
            try:
                data = root.read(f"{directory}/{below}{name}", x509.MAX_BYTES)
            except OSError:
                continue
            for one in x509.parse(data):
                found.append(Certificate(name=below + name, subject=one.subject, ends_at=one.ends_at))
    return tuple(sorted(found, key=lambda one: (one.name, one.ends_at, one.subject)))

# SPDX-License-Identifier: Apache-2.0
"""Where in a container a piece of the host's tree is, and which piece: by the roots of its mounts, and by what its
bundle says that it was given."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional

from ostreewatchd.model import Problem
from ostreewatchd.observe.host import Host
from ostreewatchd.parse.bundle import Bundle, BundleMount
from ostreewatchd.parse.containermounts import ContainerFilter, host_path_of, inside_deployment, sysroots
from ostreewatchd.parse.mountinfo import ASIDE, Mount, MountTable, covers
from ostreewatchd.peers import proc
from ostreewatchd.platforms import MovingLink

_SYSROOT = ("/sysroot/", "/ostree/")
"""Where all deployments are side by side: what a container sees of that is no place that anybody works in."""
_KUBELET, _SUBPATHS = "/var/lib/kubelet", "/volume-subpaths/"
_OTHERS = ("/run", _KUBELET, "/var/lib/containerd", "/var/lib/containers", "/var/lib/docker")
"""Where other containers' root filesystems are, and what they were given. A container that has these by way of the
host's tree holds them for nobody."""
_MAX_PLACES = 200
_MAX_MOUNTS = 5000
"""Of a container, that may show the host's tree. A container with the host's `/` has all of the host's."""


class Place(NamedTuple):
    """A piece of the host's tree in a container. `via` as in Bind."""

    host_path: str
    path: str
    via: str
    mount: Mount
    subpath: bool = False
    """kubelet makes a bind of its own of it, which the runtime binds."""


class Places:
    """One look's knowledge of what of a container can be the host's."""

    def __init__(
        self, host: Host, watched: Sequence[str], problems: list[Problem], links: Sequence[MovingLink] = ()
    ) -> None:
        """`watched`: directories that are looked at also where they are seen by way of an ancestor's bind."""
        self._host = host
        self._watched = watched
        self._problems = problems
        # What is beside watched directories below /var, too: one that was moved away, or that a link led to.
        own = {path.rpartition("/")[0] for path in (*watched, *(link.path for link in links)) if covers("/var", path)}
        named = [path for path in watched if path not in ("/usr", "/etc")]
        self._filter = ContainerFilter(host.table, named=named, unrelated=self._unrelated_overlays(), kept=sorted(own))
        self._links = [(f"{link.path}/", re.compile(_target_of(link), re.DOTALL)) for link in links]
        self._sysroots = sysroots(host.table)
        self._points: dict[str, frozenset[tuple[str, str]]] = {}
        """Of a filesystem, where the host has which root of it."""
        self.shape = (self._filter.shape, self._sysroots)
        """Equal as long as the same lines of a container's mountinfo are of interest."""

    def mounts(self, data: bytes) -> list[Mount]:
        """Those of a container's mountinfo that may be of the host's tree. Raises Unreadable if they are too many."""
        mounts = list(itertools.islice(self._filter.lines(data), _MAX_MOUNTS + 1))
        if len(mounts) > _MAX_MOUNTS:
            raise proc.Unreadable(f"more than {_MAX_MOUNTS} mounts of the host's tree: not judged")
        return mounts

    def find(self, mounts: Iterable[Mount], spec: Optional[Bundle], where: str) -> list[Place]:
        """Each bind, and each watched directory that is seen by way of an ancestor's bind; bounded, and `where` names
        the container if some are left out."""
        places: dict[str, Place] = {}
        mounts = list(mounts)
        if any(mount.point == "/" for mount in mounts):
            # It changed its root directory to a piece of the host's tree (chroot /host): the bundle's paths are not
            # the ones that it has now.
            spec = None
        own = self._own(mounts, spec)
        roots = [mount for mount in mounts if host_path_of(mount, self._host.table, self._sysroots) == "/"]
        for mount in mounts:
            if mount.id in own:
                continue
            host_path, subpath = self._host_path(mount, spec, roots)
            host_path = self._by_link(host_path)
            if host_path and not host_path.startswith(_SYSROOT) and not self._is_unrelated(mount, host_path):
                places[mount.point] = Place(host_path, mount.point, "", mount, subpath)
        for host_path, path, _, mount, subpath in list(places.values()):
            for watched in self._watched:
                if watched != host_path and covers(host_path, watched):
                    below = path.rstrip("/") + (watched if host_path == "/" else watched[len(host_path) :])
                    places.setdefault(below, Place(watched, below, host_path, mount, subpath))
        if len(places) <= _MAX_PLACES:
            return list(places.values())
        what = f"{len(places)} binds, of which {_MAX_PLACES} are looked at"
        self._problems.append(Problem(where=where, what=what))
        return sorted(places.values(), key=self._matters_less)[:_MAX_PLACES]

    def _own(self, mounts: Sequence[Mount], spec: Optional[Bundle]) -> set[int]:
        """Filesystems that the host does not have and that the container was not given, but mounted itself over what
        it was given: nothing tells one from a filesystem that the host had once, but where it stands."""
        given = {one.destination for one in spec.mounts} if spec else set()
        points = {mount.id: mount.point for mount in mounts}
        return {
            mount.id
            for mount in mounts
            if (mount.point not in given or points.get(mount.parent) == mount.point)
            and not mount.propagated
            and mount.fstype != "overlay"
            and not self.is_mounted(mount)
        }

    def seen(self, places: Sequence[Place], table: MountTable) -> list[Place]:
        """Those that can be seen in the container, each with the mount that is seen there: of mounts at one point it
        is not the one that stands last in the file, and it may be a filesystem of the container's own."""
        found = []
        holders = {place.mount.id: place for place in places if not place.via}
        for place in places:
            mount = table.visible(place.path)
            holder = holders.get(mount.id) if mount is not None else None
            if mount is not None and holder is not None and not place.via and holder.path != place.path:
                hidden = self._below(holder, place.path)
                found += [hidden] if hidden is not None else []
            elif mount is None or holder is not None or self._host.table.mounts.on_device(mount.device):
                found.append(place._replace(mount=mount or place.mount))
        return found

    def _below(self, holder: Place, path: str) -> Optional[Place]:
        """What is seen at `path` of a bind that was made over it; None if nobody asks for that."""
        if not covers(holder.path, path):
            return None
        host_path = holder.host_path.rstrip("/") + path[len(holder.path.rstrip("/")) :]
        return Place(host_path, path, holder.host_path, holder.mount) if host_path in self._watched else None

    def is_of_deployment(self, mount: Mount) -> bool:
        """Of any other filesystem the host may unmount the last, or mount one again."""
        return bool(inside_deployment(mount, self._sysroots))

    def is_mounted(self, mount: Mount) -> bool:
        """Whether the host still has what is mounted there mounted anywhere."""
        return bool(inside_deployment(mount, self._sysroots) or self._host.table.mounts.on_device(mount.device))

    def _unrelated_overlays(self) -> frozenset[bytes]:
        """Other containers' root filesystems, which a container with the host's `/` has all of."""
        related = {mount.device.encode() for mount in map(self._host.table.visible, self._watched) if mount}
        return self._host.table.mounts.overlays_aside - related

    def _is_related(self, host_path: str) -> bool:
        return any(covers(host_path, watched) or covers(watched, host_path) for watched in self._watched)

    def _is_unrelated(self, mount: Mount, host_path: str) -> bool:
        """An overlay that the runtime made, perhaps of a container that has ended since: no deployment."""
        below = any(covers(place, host_path) for place in ASIDE)
        return below and mount.fstype == "overlay" and not self._is_related(host_path)

    def _matters_less(self, place: Place) -> tuple[bool, str]:
        return (not self._is_related(place.host_path), place.path)

    def _by_link(self, host_path: str) -> str:
        """The path by way of the link that it was reached by: what a new bind would be of."""
        for link, target in self._links:
            match = target.fullmatch(host_path)
            if match is not None:
                return link + match.group(1)
        return host_path

    def _is_received(self, mount: Mount, host_path: str) -> bool:
        """Whether it is the host's own mount at that very path, which came with what is around it."""
        if mount.device not in self._points:
            found = self._host.table.mounts.on_device(mount.device)
            self._points[mount.device] = frozenset((one.point, one.root) for one in found)
        return (host_path, mount.root) in self._points[mount.device]

    def _is_others(self, mount: Mount, host_path: str) -> bool:
        """Whether what is there was made for somebody else."""
        if self._is_related(host_path):
            return False
        aside = any(covers(place, host_path) for place in ASIDE)
        return any(covers(place, host_path) for place in _OTHERS) or (aside and self._is_received(mount, host_path))

    def _by_root(self, mount: Mount, roots: Sequence[Mount]) -> str:
        """The path on the host of what no bundle tells. `roots`: where the container has the host's `/`."""
        above = [one.point.rstrip("/") for one in roots if one.point != mount.point and covers(one.point, mount.point)]
        if above:
            same = mount.point[len(max(above, key=len)) :]
            if self._is_others(mount, same):
                return ""
            if self._is_received(mount, same):
                return same
        return host_path_of(mount, self._host.table, self._sysroots)

    def _host_path(self, mount: Mount, spec: Optional[Bundle], roots: Sequence[Mount]) -> tuple[str, bool]:
        """The path on the host, and whether it is a subPath. Empty: it is nobody's to judge."""
        best: Optional[BundleMount] = None
        for one in spec.mounts if spec else ():
            if covers(one.destination, mount.point) and (best is None or len(one.destination) > len(best.destination)):
                best = one
        if best is None:
            return self._by_root(mount, roots), False
        asked = (best.source.rstrip("/") + mount.point[len(best.destination.rstrip("/")) :]) or "/"
        is_below = mount.point.rstrip("/") != best.destination.rstrip("/")
        if is_below and not best.source.startswith(f"{_KUBELET}/pods/") and self._is_others(mount, asked):
            return "", False
        # kubelet's own bind stands between (a subPath): what it is of, the mount's root tells.
        if covers(_KUBELET, asked):
            if _SUBPATHS not in asked:
                return inside_deployment(mount, self._sysroots) or asked, False
            return host_path_of(mount, self._host.table, self._sysroots, but_below=_KUBELET) or asked, True
        return asked, False


def _target_of(link: MovingLink) -> str:
    """What is below a directory that the link leads to, or led to."""
    return rf"{re.escape(link.path.rpartition('/')[0])}/(?:{link.of})/(.*)"

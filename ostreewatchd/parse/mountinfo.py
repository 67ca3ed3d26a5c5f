# SPDX-License-Identifier: Apache-2.0
"""mountinfo: the mount table of a process, and which of its mounts a path is on.

Source: proc_pid_mountinfo(5)."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Optional, Union, overload

_DELETED = "//deleted"


class Mount(NamedTuple):
    """One line. `root` and `point` are decoded; `line` is the line itself, for people."""

    id: int
    parent: int
    device: str
    """`major:minor` of the filesystem: not always a st_dev (btrfs)."""
    root: str
    point: str
    options: frozenset[str]
    propagated: bool
    fstype: str
    source: str
    super_options: str
    line: str

    @property
    def deleted(self) -> bool:
        """The mounted directory was removed: no name has a slash, so no path ends so by itself."""
        return self.root.endswith(_DELETED)

    @property
    def writable(self) -> bool:
        return "ro" not in self.options


_ESCAPE = re.compile(r"\\([0-7]{3})")


def unescape(text: str) -> str:
    r"""Undo the kernel's octal escapes (`\040` for a space)."""
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text)


def parse_line(line: str) -> Optional[Mount]:
    """One line, or None if it is not of the documented form (a torn read)."""
    fields = line.split(" ")
    try:
        dash = fields.index("-", 6)
        optional = fields[6:dash]
        return Mount(
            id=int(fields[0]),
            parent=int(fields[1]),
            device=fields[2],
            root=unescape(fields[3]),
            point=unescape(fields[4]),
            options=frozenset(fields[5].split(",")),
            propagated=any(field.startswith("master:") or field.startswith("shared:") for field in optional),
            fstype=fields[dash + 1],
            source=unescape(fields[dash + 2]),
            super_options=fields[dash + 3] if len(fields) > dash + 3 else "",
            line=line,
        )
    except (ValueError, IndexError):
        return None


_LOCAL = "ext2 ext3 ext4 xfs btrfs f2fs bcachefs erofs squashfs overlay tmpfs ramfs vfat iso9660 zfs"
SAFE_FILESYSTEMS = frozenset(_LOCAL.split(" "))
"""Filesystems on which a lookup cannot hang. All others are not touched: a lookup there cannot be interrupted."""
_SAFE = frozenset(name.encode() for name in SAFE_FILESYSTEMS)
_IN_MEMORY = frozenset((b"tmpfs", b"ramfs"))
"""The safe ones that have nothing behind them. What the others have (a layer, a disk, a file behind a loop device) may
be of a filesystem that does not answer: then they do not either."""
KERNEL_FILESYSTEMS = frozenset(("proc", "sysfs"))
"""Safe for a file that is asked for by its name: the kernel itself answers."""


ASIDE = ("/run", "/var")
"""Where no deployment is ever mounted (ostree-prepare-root(1) keeps both out of it), and nearly all mounts of a
node with containers are."""
_ASIDE = tuple(f"{place}/".encode() for place in ASIDE)
_PODS_OWN = (b"overlay ", b"tmpfs ", b"nsfs ")
_MARK = b"/deploy/"


class Mounts(Sequence[Mount]):
    """The lines of a mountinfo that are whole, in file order (which is not stacking order). Each is parsed when
    it is asked for: of the thousands of a node a look needs ten. A line is named by where it starts."""

    def __init__(
        self,
        data: bytes,
        ways: Optional[Iterable[str]] = None,
        *,
        whole: bool = True,
        is_hosts: Optional[Callable[[bytes, bool], bool]] = None,
    ) -> None:
        """`ways`: only the mounts that a lookup of one of these paths can meet. `whole=False`: those ASIDE are
        left for when somebody asks. `is_hosts`: `has` of the host's mounts, where these are others'."""
        wanted = None if ways is None else {_encode(point) for path in ways for point in _prefixes(path)}
        self._data = data
        self._made: dict[int, Mount] = {}
        self._starts: list[int] = []
        self._devices: Optional[dict[bytes, list[int]]] = None
        self._all: Optional[Mounts] = self if whole else None
        self.ids: dict[int, int] = {}
        self.children: dict[tuple[int, bytes], int] = {}
        """By the parent's id and the mount point."""
        self.top: Optional[int] = None
        aside: set[bytes] = set()
        elsewhere: set[bytes] = set()
        doubtful: set[bytes] = set()
        own: dict[int, bytes] = {}
        devices: set[bytes] = set()
        leading, roots = [], []
        starts, ids, children, start = self._starts, self.ids, self.children, 0
        for line in io.BytesIO(data):  # A line at a time: all at once would take their memory twice.
            here, start = start, start + len(line)
            fields = line.split(b" ", 5)
            if wanted is not None and fields[4:5] and fields[4] not in wanted and b"\\" not in fields[4]:
                continue
            try:
                first, second, device, root, point, rest = fields
                # A torn line is one without a dash and two fields after it.
                dash = rest.index(b" - ") + 3
                end = rest.index(b" ", dash)
                number, parent = int(first), int(second)
            except ValueError:
                continue
            if b"\\" in point:
                point = _encode(unescape(_decode(point)))
            kind = rest[dash:end]
            if kind not in _SAFE:
                doubtful.add(point)
            is_known = is_hosts is None or kind in _IN_MEMORY or (kind not in _SAFE and point != b"/")
            if not is_known and is_hosts is not None and not is_hosts(device, point == b"/"):
                own[number] = point
            if not whole:
                is_aside = point.startswith(_ASIDE)
                if rest.startswith(b"overlay ", dash):
                    (aside if is_aside else elsewhere).add(device)
                if not is_aside or _MARK in root or not rest.startswith(_PODS_OWN, dash):
                    leading.append(line)
                if is_aside:
                    continue
            starts.append(here)
            ids[number] = here
            devices.add(device)
            if point == b"/":
                roots.append((number, parent, here))
            else:
                children[parent, point] = here
        for number, parent, here in roots:
            # What stands on a process's root is under its feet: no path leads there (path_resolution(7)).
            if parent == number or parent not in ids:
                self.top = here
        self.overlays_aside = frozenset(aside - elsewhere)
        """Devices of overlays that are mounted ASIDE only. Not known of a whole table."""
        self.doubtful = frozenset(map(_decode, doubtful))
        """Where a filesystem that may not answer is mounted, seen or covered by another mount."""
        self.own = frozenset(own)
        """Ids of mounts of what the host does not have, and that may have something behind it that does not answer."""
        self.own_points = frozenset(map(_decode, own.values()))
        """Where those are, seen or covered."""
        self._devices_in_tree = devices
        self._overlays = aside | elsewhere
        self.leading = leading
        """The lines that can lead to a deployment. Not known of a whole table."""

    @property
    def all(self) -> Mounts:
        """The same with the lines that were left."""
        if self._all is None:
            self._all = Mounts(self._data)
        return self._all

    def for_way(self, path: str) -> Mounts:
        """What has all mounts that a lookup of the path can meet."""
        return self.all if _encode(path).startswith(_ASIDE) else self

    def __len__(self) -> int:
        return len(self.all._starts)

    @overload
    def __getitem__(self, index: int) -> Mount: ...

    @overload
    def __getitem__(self, index: slice) -> list[Mount]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Mount, list[Mount]]:
        if isinstance(index, slice):
            return [self.at(start) for start in self.all._starts[index]]
        return self.at(self.all._starts[index])

    def at(self, start: int) -> Mount:
        """The mount whose line starts there."""
        mount = self._whole(start)
        if mount is None:
            raise ValueError(f"no line starts at {start}")
        return mount

    def _whole(self, start: int) -> Optional[Mount]:
        """The same; None of a line that is not whole."""
        mount = self._made.get(start)
        if mount is None:
            end = self._data.find(b"\n", start)
            mount = parse_line(_decode(self._data[start:end] if end >= 0 else self._data[start:]))
            if mount is not None:
                self._made[start] = mount
        return mount

    def below(self, *places: str) -> list[Mount]:
        """Those whose mount point lies below one of the places, none of which is ASIDE."""
        starts = tuple(_encode(f"{place}/") for place in places)
        return [self.at(start) for (_, point), start in self.children.items() if point.startswith(starts)]

    def inside(self, *places: str) -> list[Mount]:
        """Those at one of the places or below it, none of which is ASIDE."""
        at = tuple(map(_encode, places))
        found = [self.at(start) for (_, point), start in self.children.items() if point in at]
        return found + self.below(*places)

    def holding(self, namespace: int) -> str:
        """Where a mount namespace is held by a mount of its file; empty if it is not."""
        at = self._data.find(f" mnt:[{namespace}] ".encode())
        mount = self.at(self._data.rfind(b"\n", 0, at) + 1) if at >= 0 else None
        return mount.point if mount is not None and mount.fstype == "nsfs" else ""

    def has(self, device: bytes, anywhere: bool) -> bool:
        """Whether a filesystem is mounted in what `whole=False` leaves; or `anywhere`, as a container's root is: ASIDE
        a container can have its own mounts appear (mountPropagation Bidirectional)."""
        if device in self._devices_in_tree:
            return True
        return anywhere and (device in self._overlays or b" %b /" % device in self._data)

    def on_device(self, device: str) -> list[Mount]:
        """Those of one filesystem."""
        if self._devices is None:
            self._devices, start = {}, 0
            for line in io.BytesIO(self._data):
                for found in line.split(b" ", 3)[2:3]:
                    self._devices.setdefault(found, []).append(start)
                start += len(line)
        found_there = map(self._whole, self._devices.get(_encode(device), ()))
        return [mount for mount in found_there if mount is not None]


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def parse(data: bytes) -> Mounts:
    """All lines that are whole."""
    return Mounts(data, whole=False)


class MountTable:
    """Answers which mount a path is on."""

    def __init__(self, mounts: Mounts) -> None:
        self.mounts = mounts

    def _way(self, path: str) -> list[Mount]:
        """The mounts that a lookup of the absolute, symlink-free `path` meets, by the chain of parents: from the
        root down, at each mount to the child that the walk meets first. Of mounts at one point the walk sees the
        last. The last line for a mount point can be a mount tucked below another one, so order in the file says
        nothing."""
        mounts = self.mounts.for_way(path)
        way: list[Mount] = []
        if mounts.top is None:
            return []
        prefixes = [(prefix, _encode(prefix)) for prefix in _prefixes(path)]
        current: Optional[int] = mounts.top
        for _ in range(len(mounts.ids)):
            if current is None:
                break
            mount = mounts.at(current)
            if way and way[-1].point == mount.point:
                way.pop()
            way.append(mount)
            current = None
            for prefix, encoded in prefixes:
                if covers(mount.point, prefix):
                    current = mounts.children.get((mount.id, encoded))
                    if current is not None:
                        break
        return way

    def visible(self, path: str) -> Optional[Mount]:
        """The mount that a lookup of the absolute, symlink-free `path` ends on."""
        way = self._way(path)
        return way[-1] if way else None

    def unsafe(self, path: str) -> Optional[Mount]:
        """The first mount on the way to `path` whose filesystem may not answer; None if there is none."""
        for mount in self._way(path):
            if mount.fstype not in SAFE_FILESYSTEMS:
                return mount
        return None

    def stops(self, place: str) -> Optional[Mount]:
        """The mount because of which a walk, which was let through to its parent, must not step on `place`. Not the
        one at `/`: where that does not answer nothing runs."""
        if place not in self.mounts.doubtful:
            return None
        for mount in self._way(place):
            if mount.point != "/" and mount.fstype not in SAFE_FILESYSTEMS | KERNEL_FILESYSTEMS:
                return mount
        return None

    def own(self, place: str) -> Optional[Mount]:
        """What is seen at `place`, if the host does not have it and it may not answer although it is of a kind that
        is safe by itself."""
        if place not in self.mounts.own_points:
            return None
        mount = self.visible(place)
        return mount if mount is not None and mount.id in self.mounts.own else None

    def by_id(self, mount_id: Optional[int]) -> Optional[Mount]:
        """The mount with this id; None if there is none, or no id is known."""
        if mount_id is None:
            return None
        start = self.mounts.ids.get(mount_id)
        if start is None:
            start = self.mounts.all.ids.get(mount_id)
        return self.mounts.at(start) if start is not None else None


def covers(point: str, path: str) -> bool:
    """Whether `path` is `point` or lies below it."""
    return point == "/" or path == point or path.startswith(point + "/")


def without_deleted(root: str) -> str:
    """A mount's root less what the kernel puts behind that of a removed directory."""
    return root[: -len(_DELETED)] if root.endswith(_DELETED) else root


_DEPLOYMENT = re.compile(r"/ostree/deploy/([^/]+)/deploy/([0-9a-f]{64}\.[0-9]+)(/.*)?\Z", re.DOTALL)


def deployment_of(root: str) -> tuple[str, str]:
    """`(<stateroot>-<checksum>.<serial>, path inside the deployment)` of a mount's root, or two empty strings.
    Searched and not anchored: btrfs puts its subvolume in front."""
    match = _DEPLOYMENT.search(without_deleted(root))
    if match is None:
        return "", ""
    return f"{match.group(1)}-{match.group(2)}", match.group(3) or "/"


def _prefixes(path: str) -> Iterator[str]:
    yield "/"
    end = path.find("/", 1)
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)
    if path != "/":
        yield path

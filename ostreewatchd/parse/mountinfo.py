# SPDX-License-Identifier: Apache-2.0
"""mountinfo: the whole table of a host, or only the lines of a container that can show a deployment.

Source: proc_pid_mountinfo(5)."""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Optional, Union, overload


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
        """The mounted directory was removed. A path may end so by itself: evidence, not a verdict."""
        return self.root.endswith("//deleted")

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


ASIDE = ("/run", "/var")
"""Where no deployment is ever mounted (ostree-prepare-root(1) keeps both out of it), and nearly all mounts of a
node with containers are."""
_ASIDE = tuple(f"{place}/".encode() for place in ASIDE)
_PODS_OWN = (b"overlay ", b"tmpfs ", b"nsfs ")
_MARK = b"/deploy/"


class Mounts(Sequence[Mount]):
    """The lines of a mountinfo that are whole, in file order (which is not stacking order). Each is parsed when
    it is asked for: of the thousands of a node a look needs ten. A line is named by where it starts."""

    def __init__(self, data: bytes, ways: Optional[Iterable[str]] = None, *, whole: bool = True) -> None:
        """`ways`: only the mounts that a lookup of one of these paths can meet. `whole=False`: those ASIDE are
        left for when somebody asks."""
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
                rest.index(b" ", dash)
                number, parent = int(first), int(second)
            except ValueError:
                continue
            if not whole:
                is_aside = point.startswith(_ASIDE)
                if rest.startswith(b"overlay ", dash):
                    (aside if is_aside else elsewhere).add(device)
                if not is_aside or _MARK in root or not rest.startswith(_PODS_OWN, dash):
                    leading.append(line)
                if is_aside:
                    continue
            if b"\\" in point:
                point = _encode(unescape(_decode(point)))
            starts.append(here)
            ids[number] = here
            if point == b"/":
                roots.append((number, parent, here))
            else:
                children[parent, point] = here
        for number, parent, here in roots:
            if parent == number or parent not in ids:
                self.top = here
            else:
                children[parent, b"/"] = here
        self.overlays_aside = frozenset(aside - elsewhere)
        """Devices of overlays that are mounted ASIDE only. Not known of a whole table."""
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
        mount = self._made.get(start)
        if mount is None:
            end = self._data.find(b"\n", start)
            mount = parse_line(_decode(self._data[start:end] if end >= 0 else self._data[start:]))
            if mount is None:
                raise ValueError(f"no line starts at {start}")
            self._made[start] = mount
        return mount

    def on_device(self, device: str) -> list[Mount]:
        """Those of one filesystem."""
        if self._devices is None:
            self._devices = {}
            for start in self.all._starts:
                found = self._data[start : start + 80].split(b" ", 3)[2]
                self._devices.setdefault(found, []).append(start)
        return [self.at(start) for start in self._devices.get(_encode(device), ())]


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@functools.lru_cache(maxsize=1)
def parse(data: bytes) -> Mounts:
    """All lines that are whole. PID 1's table is parsed once for as long as it does not change: its bytes are
    then the same."""
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
        """The first mount on the way to `path` whose filesystem may not answer."""
        for mount in self._way(path):
            if mount.fstype not in SAFE_FILESYSTEMS:
                return mount
        return None

    def by_id(self, mount_id: Optional[int]) -> Optional[Mount]:
        """The mount with this id; None if there is none, or no id is known."""
        if mount_id is None:
            return None
        start = self.mounts.ids.get(mount_id)
        if start is None:
            start = self.mounts.all.ids.get(mount_id)
        return self.mounts.at(start) if start is not None else None

    def stack(self, path: str) -> int:
        """How many mounts have exactly this mount point."""
        return sum(1 for mount in self.mounts if mount.point == path)


def covers(point: str, path: str) -> bool:
    """Whether `path` is `point` or lies below it."""
    return point == "/" or path == point or path.startswith(point + "/")


_DEPLOYMENT = re.compile(r"/ostree/deploy/([^/]+)/deploy/([0-9a-f]{64}\.[0-9]+)(/.*)?\Z", re.DOTALL)


def deployment_of(root: str) -> tuple[str, str]:
    """`(<stateroot>-<checksum>.<serial>, path inside the deployment)` of a mount's root, or two empty strings.
    Searched and not anchored: btrfs puts its subvolume in front."""
    match = _DEPLOYMENT.search(root[: -len("//deleted")] if root.endswith("//deleted") else root)
    if match is None:
        return "", ""
    return f"{match.group(1)}-{match.group(2)}", match.group(3) or "/"


class ContainerFilter:
    """Finds the few lines of a container's mountinfo that can show a piece of the host's tree, without
    parsing the others: nearly all of a thousand containers' lines are proc, cgroup and kubelet's own files.

    Kept: any mount whose root names a deployment; overlays other than the root filesystem; mounts of the
    devices that the host's tree is on. Dropped of the latter: the stateroot's `/var`, which all deployments
    share (ostree-prepare-root(1)), so that nothing below it can be stale by a switch."""

    def __init__(self, host: MountTable, *, unrelated: frozenset[bytes] = frozenset()) -> None:
        """`unrelated`: devices of overlays that are no part of the host's tree and are left out, too."""
        devices = set()
        for path in ("/", "/usr", "/etc"):
            mount = host.visible(path)
            if mount is not None:
                devices.add(mount.device)
        var = host.visible("/var")
        var_root = ""
        if var is not None:
            var_root = _escape(var.root if var.point == "/var" else (var.root.rstrip("/") + "/var"))
        self._unrelated = unrelated
        self._devices = frozenset(device.encode() for device in devices)
        self._on_device = [
            (f" {device} ".encode(), _encode(f" {device} {var_root}/"), _encode(f" {device} {var_root} "))
            for device in sorted(devices)
        ]
        self._marks_of_var = _encode(var_root).count(_MARK)
        not_var = f"(?!{re.escape(var_root)}[/ ])" if var is not None else ""
        on_device = "|".join(re.escape(device) for device in sorted(devices)) or "(?!)"
        # A field ends at a space: of the rest the kernel escapes tab, newline and backslash, and nothing else.
        field = "[^ \\n]"
        pattern = (
            rf"\d+ \d+ (?:(?:{on_device}) {not_var}{field}+ (?!/ )"
            rf"|{field}+ {field}*/ostree/deploy/[^/ \n]+/deploy/[0-9a-f]{{64}}\.\d+(?:/{field}*)? (?!/ )"
            rf"|{field}+ {field}+ (?!/ ){field}+ {field}+ (?:[a-z_]+(?::\d+)? )*- overlay )"
        )
        self._match = re.compile(_encode(pattern)).match

    def lines(self, data: bytes) -> Iterator[Mount]:
        """The candidates among a container's lines."""
        if self._has_none(data):
            return
        unrelated, devices = self._unrelated, self._devices
        for line in io.BytesIO(data):
            fields = line.split(b" ", 4)
            if len(fields) < 5 or fields[2] in unrelated:
                continue
            # A look at the fields spares most lines of a large table the expression.
            may = fields[2] in devices or _MARK in fields[3] or b" - overlay " in fields[4]
            if may and self._match(line) is not None:
                mount = parse_line(_decode(line.rstrip(b"\n")))
                if mount is not None and mount.point != "/":
                    yield mount

    def _has_none(self, data: bytes) -> bool:
        """Whether counting tells already that no line can match, as it does for nearly all containers."""
        marks = data.count(_MARK)
        for device, below_var, var in self._on_device:
            below = data.count(below_var)
            rest = data.count(device) - below
            if rest and rest != data.count(var):
                return False
            marks -= (below + rest) * self._marks_of_var
        if marks > 0 and data.count(_MARK) != data.count(b"/ostree" + _MARK):
            # Each `/ostree/deploy/` of a deployment is followed by a second `/deploy/`.
            return False
        overlay = data.find(b" - overlay ")
        if overlay < 0:
            return True
        line = data[data.rfind(b"\n", 0, overlay) + 1 : overlay]
        return line.split(b" ", 5)[4:5] == [b"/"] and data.find(b" - overlay ", overlay + 1) < 0


def receives_mounts(data: bytes) -> bool:
    """Whether later mounts elsewhere can reach this mount namespace (HostToContainer, Bidirectional) at any place
    but its root: a runtime leaves that a slave of the one that it mounted for the container, where nobody mounts."""
    for mark in (b" master:", b" shared:"):
        at = data.find(mark)
        while at >= 0:
            if data[data.rfind(b"\n", 0, at) + 1 : at].split(b" ", 5)[4:5] != [b"/"]:
                return True
            at = data.find(mark, at + 1)
    return False


def _escape(text: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in text)


def host_path_of(mount: Mount, host: MountTable) -> str:
    """Which path of the host a container's mount is of, by its root alone: inside a deployment it is the path
    there; else the host's mount of the same filesystem with the longest root that leads to it. Empty if none."""
    name, inside = deployment_of(mount.root)
    if name:
        return inside
    best: Optional[Mount] = None
    for candidate in host.mounts.on_device(mount.device):
        if covers(candidate.root, mount.root) and (best is None or len(candidate.root) > len(best.root)):
            best = candidate
    if best is None:
        return ""
    rest = mount.root if best.root == "/" else mount.root[len(best.root) :]
    return (best.point.rstrip("/") + rest) or "/"


def unsafe_mount(table: MountTable, path: str) -> Optional[Mount]:
    """The first mount on the way to `path` whose filesystem may not answer; None if there is none."""
    return table.unsafe(path)


def _prefixes(path: str) -> Iterator[str]:
    yield "/"
    end = path.find("/", 1)
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)
    if path != "/":
        yield path

# SPDX-License-Identifier: Apache-2.0
"""mountinfo: the whole table of a host, or only the lines of a container that can show a deployment.

Source: proc_pid_mountinfo(5)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Optional


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


def parse(data: bytes) -> list[Mount]:
    """All lines that are whole, in file order (which is not stacking order)."""
    mounts = []
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        if line:
            mount = parse_line(line)
            if mount is not None:
                mounts.append(mount)
    return mounts


class MountTable:
    """Answers which mount a path is on. Built from PID 1's lines once per look."""

    def __init__(self, mounts: Sequence[Mount]) -> None:
        self.mounts = mounts
        self._children: dict[tuple[int, str], Mount] = {}
        self._ids = ids = {mount.id: mount for mount in mounts}
        self._top: Optional[Mount] = None
        for mount in mounts:
            if mount.point == "/" and (mount.parent not in ids or mount.parent == mount.id):
                self._top = mount
            else:
                self._children[mount.parent, mount.point] = mount

    def visible(self, path: str) -> Optional[Mount]:
        """The mount that a lookup of the absolute, symlink-free `path` ends on, by the chain of parents: from
        the root down, at each mount to the child that the walk meets first. The last line for a mount point
        can be a mount tucked below another one, so order in the file says nothing."""
        prefixes = tuple(_prefixes(path))
        current = self._top
        for _ in range(len(self.mounts)):
            if current is None:
                return None
            for prefix in prefixes:
                child = self._children.get((current.id, prefix)) if covers(current.point, prefix) else None
                if child is not None:
                    current = child
                    break
            else:
                return current
        return current

    def by_id(self, mount_id: Optional[int]) -> Optional[Mount]:
        """The mount with this id; None if there is none, or no id is known."""
        return self._ids.get(mount_id) if mount_id is not None else None

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

    def __init__(self, host: MountTable) -> None:
        devices = set()
        for path in ("/", "/usr", "/etc"):
            mount = host.visible(path)
            if mount is not None:
                devices.add(mount.device)
        shared = []
        var = host.visible("/var")
        if var is not None:
            root = var.root if var.point == "/var" else (var.root.rstrip("/") + "/var")
            shared.append(root)
        not_var = "".join(f"(?!{re.escape(_escape(root))}[/ ])" for root in shared)
        on_device = "|".join(re.escape(device) for device in sorted(devices)) or "(?!)"
        # A field ends at a space: of the rest the kernel escapes tab, newline and backslash, and nothing else.
        field = "[^ \\n]"
        pattern = (
            rf"^\d+ \d+ (?:(?:{on_device}) {not_var}{field}+ (?!/ )"
            rf"|{field}+ {field}*/ostree/deploy/[^/ \n]+/deploy/[0-9a-f]{{64}}\.\d+(?:/{field}*)? (?!/ )"
            rf"|{field}+ {field}+ (?!/ ){field}+ {field}+ (?:[a-z_]+(?::\d+)? )*- overlay ).*$"
        )
        self._search = re.compile(pattern.encode("utf-8", "surrogateescape"), re.MULTILINE).finditer

    def lines(self, data: bytes) -> Iterator[Mount]:
        """The candidates among a container's lines."""
        for match in self._search(data):
            mount = parse_line(match.group().decode("utf-8", "surrogateescape"))
            if mount is not None and mount.point != "/":
                yield mount


def _escape(text: str) -> str:
    return "".join(f"\\{ord(char):03o}" if char in " \t\n\\" else char for char in text)


def host_path_of(mount: Mount, host: MountTable) -> str:
    """Which path of the host a container's mount is of, by its root alone: inside a deployment it is the path
    there; else the host's mount of the same filesystem with the longest root that leads to it. Empty if none."""
    name, inside = deployment_of(mount.root)
    if name:
        return inside
    best: Optional[Mount] = None
    for candidate in host.mounts:
        leads_there = candidate.device == mount.device and covers(candidate.root, mount.root)
        if leads_there and (best is None or len(candidate.root) > len(best.root)):
            best = candidate
    if best is None:
        return ""
    rest = mount.root if best.root == "/" else mount.root[len(best.root) :]
    return (best.point.rstrip("/") + rest) or "/"


_LOCAL = "ext2 ext3 ext4 xfs btrfs f2fs bcachefs erofs squashfs overlay tmpfs ramfs vfat iso9660 zfs"
SAFE_FILESYSTEMS = frozenset(_LOCAL.split(" "))
"""Filesystems on which a lookup cannot hang. All others are not touched: a lookup there cannot be interrupted."""


def unsafe_mount(table: MountTable, path: str) -> Optional[Mount]:
    """The first mount on the way to `path` whose filesystem may not answer; None if there is none."""
    for mount in {table.visible(part) for part in _prefixes(path)}:
        if mount is not None and mount.fstype not in SAFE_FILESYSTEMS:
            return mount
    return None


def _prefixes(path: str) -> Iterator[str]:
    yield "/"
    end = path.find("/", 1)
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)
    if path != "/":
        yield path

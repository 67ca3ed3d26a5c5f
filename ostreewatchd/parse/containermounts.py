# SPDX-License-Identifier: Apache-2.0
"""The few mounts of a container that can show a piece of the host's tree, and which piece that is.

Source: proc_pid_mountinfo(5); ostree-prepare-root(1) (where deployments and the shared /var are)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

from ostreewatchd.parse.mountinfo import Mount, MountTable, covers, parse_line, without_deleted

_INSIDE = re.compile(r"/ostree/deploy/[^/]+/deploy/[0-9a-f]{64}\.[0-9]+(/.*)?\Z", re.DOTALL)
_ABOVE = re.compile(r"(.*?)/ostree/deploy/[^/]+/deploy/[0-9a-f]{64}\.[0-9]+(?:/|\Z)", re.DOTALL)


class Sysroot(NamedTuple):
    """Where the deployments are: a filesystem, and what leads to `/ostree` in it (a btrfs subvolume)."""

    device: str
    prefix: str

    def inside(self, mount: Mount) -> str:
        """The path in its deployment of what is mounted; empty if it is of no deployment of this sysroot. Anchored:
        anybody may make a directory that is called `…/ostree/deploy/…` in a volume of his own."""
        root = without_deleted(mount.root)
        if mount.device != self.device or not root.startswith(self.prefix + "/ostree/"):
            return ""
        match = _INSIDE.match(root, len(self.prefix))
        return (match.group(1) or "/") if match else ""


def sysroots(host: MountTable) -> frozenset[Sysroot]:
    """As the host's own visible mounts tell; none on a host without OSTree."""
    found = set()
    for path in ("/", "/usr", "/etc", "/sysroot"):
        mount = host.visible(path)
        if mount is None:
            continue
        match = _ABOVE.match(mount.root)
        if match is not None:
            found.add(Sysroot(mount.device, match.group(1)))
        elif path == "/sysroot" == mount.point:
            found.add(Sysroot(mount.device, mount.root.rstrip("/")))
    return frozenset(found)


def inside_deployment(mount: Mount, where: frozenset[Sysroot]) -> str:
    """The path in its deployment of what is mounted; empty if it is of none."""
    return next((path for path in (sysroot.inside(mount) for sysroot in where) if path), "")


def host_path_of(mount: Mount, host: MountTable, where: frozenset[Sysroot], *, but_below: str = "") -> str:
    """Which path of the host a container's mount is of, by its root alone: inside a deployment it is the path
    there; else the host's mount of the same filesystem with the longest root that leads to it. `but_below`: not one
    that is mounted there. Empty if none."""
    inside = inside_deployment(mount, where)
    if inside:
        return inside
    best: Optional[Mount] = None
    for candidate in host.mounts.on_device(mount.device):
        if but_below and covers(but_below, candidate.point):
            continue
        if covers(candidate.root, mount.root) and (best is None or len(candidate.root) > len(best.root)):
            best = candidate
    if best is None:
        return ""
    rest = mount.root if best.root == "/" else mount.root[len(best.root) :]
    return (best.point.rstrip("/") + rest).rstrip("/") or "/"


class ContainerFilter:
    """Finds the few lines of a container's mountinfo that can show a piece of the host's tree, without
    parsing the others: nearly all of a thousand containers' lines are proc, cgroup and kubelet's own files.

    Kept: mounts of the devices that the host's tree, what is mounted in it, and its deployments are on, overlays other
    than the root filesystem, and what is called as a watched directory is: what it was may be gone from the host.
    Dropped of the first: the stateroot's `/var`, which all deployments share, so that nothing below it can be stale
    by a switch of those; but for what has a life of its own there. The root itself is kept where it is of the host's
    tree: of a process that changed its root directory to that (chroot /host)."""

    def __init__(
        self,
        host: MountTable,
        *,
        named: Iterable[str] = (),
        unrelated: frozenset[bytes] = frozenset(),
        kept: Iterable[str] = (),
    ) -> None:
        """`named`: directories whose path is kept as the end of a mount point. `unrelated`: devices of overlays that
        are no part of the host's tree and are left out, too. `kept`: paths below `/var` that are not dropped."""
        # Those that are covered by now, too: a container may have been given them.
        in_tree = host.mounts.inside("/usr", "/etc")
        devices = {mount.device for mount in in_tree}
        for path in ("/", "/usr", "/etc", "/sysroot", *named):
            mount = host.visible(path)
            if mount is not None:
                devices.add(mount.device)
        var = host.visible("/var")
        var_root = var_device = ""
        if var is not None:
            var_device = var.device
            var_root = _escape(var.root if var.point == "/var" else var.root.rstrip("/") + "/var").rstrip("/")
        shared = var_root if var_device in devices else ""
        kept_roots = [var_root + _escape(path[len("/var") :]) for path in kept if var_device]
        # A piece of it that is mounted in the tree is as good as any other.
        roots_in_tree = {_escape(mount.root) for mount in in_tree if mount.device == var_device}
        kept_roots += sorted(root for root in roots_in_tree if covers(var_root, root))
        self._unrelated = unrelated
        called = tuple(_encode(f"{_escape(path)} ") for path in named)
        kept_marks = [_encode(f" {var_device} {root}") for root in kept_roots]
        of_var = tuple(_encode(f" {var_device} {shared}{end}") for end in "/ ") if shared else ()
        self._marks = [(f" {device} ".encode(), of_var) for device in sorted(devices)]
        self._marks += [(mark, ()) for mark in (*kept_marks, *called, b" - overlay ")]
        """Each candidate has one of these, and not as the start of one of those."""
        not_var = f"(?!{re.escape(var_device)} {re.escape(shared)}[/ ])" if shared else ""
        on_device = "|".join(re.escape(device) for device in sorted(devices)) or "(?!)"
        # A field ends at a space: of the rest the kernel escapes tab, newline and backslash, and nothing else.
        field = "[^ \\n]"
        kept_too = "".join(rf"{re.escape(var_device)} {re.escape(root)}(?:/{field}*)? |" for root in kept_roots)
        by_name = "".join(rf"{field}+ {field}+ {field}*{re.escape(_escape(path))} |" for path in named)
        pattern = (
            rf"\d+ \d+ (?:{kept_too}{by_name}{not_var}(?:{on_device}) "
            rf"|{field}+ {field}+ (?!/ ){field}+ {field}+ (?:[a-z_]+(?::\d+)? )*- overlay )"
        )
        self._match = re.compile(_encode(pattern)).match
        # Those of overlays are of interest in any case.
        overlays = {mount.device for mount in in_tree if mount.fstype == "overlay"}
        self.shape = (frozenset(devices - overlays), shared, tuple(kept_roots), called)

    def lines(self, data: bytes) -> Iterator[Mount]:
        """The candidates among a container's lines."""
        for start in sorted(self._starts(data)):
            if self._match(data, start) is None:
                continue
            end = data.find(b"\n", start)
            mount = parse_line((data[start:end] if end >= 0 else data[start:]).decode("utf-8", "surrogateescape"))
            if mount is not None:
                yield mount

    def _starts(self, data: bytes) -> set[int]:
        """Where the lines start that have what a candidate has: no other line is looked at."""
        found = set()
        for mark, of_var in self._marks:
            at = data.find(mark)
            while at >= 0:
                if not data.startswith(of_var, at):
                    start = data.rfind(b"\n", 0, at) + 1
                    if not self._unrelated or _device(data, start) not in self._unrelated:
                        found.add(start)
                at = data.find(mark, at + 1)
        return found


def _device(data: bytes, start: int) -> bytes:
    """The device field of the line that starts there, where it has one."""
    first = data.find(b" ", data.find(b" ", start) + 1) + 1
    return data[first : data.find(b" ", first)]


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


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

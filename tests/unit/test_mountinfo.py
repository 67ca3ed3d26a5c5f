# SPDX-License-Identifier: Apache-2.0
"""mountinfo on real lines: what is visible where, which deployment a mount is of, and what may not be touched."""

from __future__ import annotations

import pytest

from ostreewatchd.parse.containermounts import Sysroot, host_path_of, inside_deployment, sysroots
from ostreewatchd.parse.mountinfo import (
    Mounts,
    MountTable,
    covers,
    deployment_of,
    parse,
    parse_line,
    unescape,
)

OLD, NEW, NEW2 = "a" * 64, "b" * 64, "c" * 64
DEPLOY = "/ostree/deploy/debian/deploy"

# A StarlingX node after an in-service patch whose root and /etc share a peer group, measured on Linux 6.18: three
# lines at /etc, of which the last is tucked below the one that is seen.
TUCKED = f"""\
73 1 7:0 {DEPLOY}/{OLD}.0 / rw,relatime shared:1 - ext4 /dev/loop0 rw
72 73 7:0 / /sysroot rw,relatime shared:5 - ext4 /dev/loop0 rw
102 73 7:0 {DEPLOY}/{OLD}.0/usr /usr ro,relatime shared:2 - ext4 /dev/loop0 rw
135 102 7:0 {DEPLOY}/{NEW}.0/usr /usr ro,noatime shared:3 - ext4 /dev/loop0 rw
104 151 7:0 {DEPLOY}/{OLD}.0/etc /etc rw,relatime shared:4 - ext4 /dev/loop0 rw
149 104 7:0 {DEPLOY}/{NEW}.0/etc /etc rw,noatime shared:4 - ext4 /dev/loop0 rw
141 72 7:0 {DEPLOY}/{NEW}.0/usr/etc /sysroot{DEPLOY}/{OLD}.0/usr/etc ro,noatime - ext4 /dev/loop0 rw
142 72 7:0 {DEPLOY}/{NEW}.0/etc /sysroot{DEPLOY}/{OLD}.0/etc rw,noatime - ext4 /dev/loop0 rw
151 73 7:0 {DEPLOY}/{NEW}.0/etc /etc rw,relatime shared:4 - ext4 /dev/loop0 rw
"""


def table(text: str) -> MountTable:
    return MountTable(parse(text.encode("utf-8", "surrogateescape")))


def visible(text: str, path: str) -> int:
    mount = table(text).visible(path)
    assert mount is not None
    return mount.id


def test_the_last_line_is_not_the_visible_one() -> None:
    """Invariant 1: never the last mountinfo line."""
    lines = [mount for mount in parse(TUCKED.encode()) if mount.point == "/etc"]
    assert [mount.id for mount in lines] == [104, 149, 151]
    assert visible(TUCKED, "/etc") == 149
    assert visible(TUCKED, "/etc/cni/net.d") == 149
    assert sum(mount.point == "/etc" for mount in table(TUCKED).mounts) == 3


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/", 73), ("/usr", 135), ("/usr/lib/modules", 135), ("/var/lib", 73), ("/etcetera", 73), ("/sysroot/x", 72)],
)
def test_visible(path: str, expected: int) -> None:
    assert visible(TUCKED, path) == expected


def test_below_an_overmounted_directory_its_older_children_are_hidden() -> None:
    text = TUCKED.replace("104 151", "104 73").replace("151 73", "151 149")
    hidden = "160 104 0:44 / /etc/cni rw - tmpfs tmpfs rw\n"
    assert visible(text + hidden, "/etc/cni/net.d") == 151
    shown = "160 151 0:44 / /etc/cni rw - tmpfs tmpfs rw\n"
    assert visible(text + shown, "/etc/cni/net.d") == 160


def test_a_second_patch_is_on_top_of_the_first() -> None:
    second = f"190 149 7:0 {DEPLOY}/{NEW2}.0/etc /etc rw,noatime shared:9 - ext4 /dev/loop0 rw\n"
    assert visible(second + TUCKED, "/etc") == 190


def test_parents_in_a_circle_end() -> None:
    text = "1 0 8:1 / / rw - ext4 a rw\n2 3 8:1 /a /a rw - ext4 a rw\n3 2 8:1 /a /a rw - ext4 a rw\n"
    assert visible(text, "/a") == 1
    text = "1 1 8:1 / / rw - ext4 a rw\n2 1 8:1 /a /a rw - ext4 a rw\n"
    assert visible(text, "/a") == 2, "a root that is its own parent"
    assert table("").visible("/etc") is None
    assert table("2 1 8:1 /a /a rw - ext4 a rw\n").visible("/a") is None, "no root in sight"


def test_fields_of_a_line() -> None:
    root = f"{DEPLOY}/{OLD}.0/etc/cni/net.d"
    mount = parse_line(f"131 130 7:0 {root} /pod/netd rw,relatime master:1 propagate_from:2 - ext4 /dev/loop0 rw")
    assert mount is not None
    assert (mount.id, mount.parent, mount.device, mount.point) == (131, 130, "7:0", "/pod/netd")
    assert (mount.fstype, mount.source, mount.super_options) == ("ext4", "/dev/loop0", "rw")
    assert mount.writable and mount.propagated and not mount.deleted


@pytest.mark.parametrize(
    ("optional", "expected"),
    [("", False), ("shared:1 ", True), ("master:7 ", True), ("unbindable ", False), ("propagate_from:3 ", False)],
)
def test_who_receives_later_mounts(optional: str, expected: bool) -> None:
    mount = parse_line(f"1 0 8:1 / / rw {optional}- ext4 a rw")
    assert mount is not None and mount.propagated is expected


def test_octal_escapes() -> None:
    assert unescape(r"/a\040b\011c\012d\134e") == "/a b\tc\nd\\e"
    assert unescape(r"/no\9escape\04") == r"/no\9escape\04"
    mount = parse_line(r"5 1 8:1 /with\040space /at\012line\134 ro - ext4 /dev/sd\040a rw")
    assert mount is not None
    assert (mount.root, mount.point, mount.source) == ("/with space", "/at\nline\\", "/dev/sd a")
    assert not mount.writable


@pytest.mark.parametrize(
    "line",
    ["", "1", "1 0 8:1 / /", "1 0 8:1 / / rw - ext4", "x 0 8:1 / / rw - ext4 a rw", "1 0 8:1 / / rw ext4 a rw"],
)
def test_a_torn_line_is_left_out(line: str) -> None:
    assert parse_line(line) is None
    assert [mount.id for mount in parse(f"{line}\n7 0 8:1 / / rw - ext4 a rw\n".encode())] == [7]


def test_bytes_that_are_no_utf8_are_kept() -> None:
    (mount,) = parse(b"7 0 8:1 /a\xff /b rw - ext4 a rw\n")
    assert mount.root.encode("utf-8", "surrogateescape") == b"/a\xff"


RHCOS = "32074f0e8e5ec453e56f5a8a7bc9347eaa4172349ceab9c22b709d9d71a3f4b0"


@pytest.mark.parametrize(
    ("root", "name", "inside"),
    [
        (f"{DEPLOY}/{OLD}.0", f"debian-{OLD}.0", "/"),
        (f"{DEPLOY}/{OLD}.0/etc/cni/net.d", f"debian-{OLD}.0", "/etc/cni/net.d"),
        (f"{DEPLOY}/{OLD}.0/etc/a\nb", f"debian-{OLD}.0", "/etc/a\nb"),
        (f"{DEPLOY}/{OLD}.0\n", "", ""),
        (f"{DEPLOY}/{OLD}.12/usr//deleted", f"debian-{OLD}.12", "/usr"),
        (f"{DEPLOY}/{OLD}.0//deleted", f"debian-{OLD}.0", "/"),
        (f"/ostree/deploy/rhcos/deploy/{RHCOS}.0", f"rhcos-{RHCOS}.0", "/"),
        # btrfs: the subvolume comes first.
        (f"/root/ostree/deploy/fedora/deploy/{NEW}.0/usr", f"fedora-{NEW}.0", "/usr"),
        (f"/ostree/deploy/fedora-coreos/deploy/{NEW}.0/etc", f"fedora-coreos-{NEW}.0", "/etc"),
        ("/ostree/deploy/debian/var/lib", "", ""),
        ("/ostree/deploy/fedora-coreos/deploy/abc.0/etc", "", ""),
        (f"{DEPLOY}/{OLD}.0.origin", "", ""),
        (f"{DEPLOY}/{OLD[:-1]}.0/etc", "", ""),
        (f"{DEPLOY}/{OLD}/etc", "", ""),
        ("/", "", ""),
        ("/cni/net.d", "", ""),
    ],
)
def test_deployment_of(root: str, name: str, inside: str) -> None:
    assert deployment_of(root) == (name, inside)


def test_a_deployment_below_another_one_is_the_inner_one() -> None:
    """A sysroot in a sysroot: what the mount shows is the innermost."""
    root = f"{DEPLOY}/{OLD}.0/var/lab{DEPLOY}/{NEW}.0/etc"
    assert deployment_of(root)[0] in (f"debian-{NEW}.0", f"debian-{OLD}.0")


def test_deleted_is_evidence() -> None:
    text = (
        "73 1 252:4 /ostree/deploy/x/ws/gone//deleted /mnt/gone rw - xfs /dev/vda4 rw\n"
        "783 635 253:1 /opt/agenticos/packages/github-sync-plugin//deleted /p ro,relatime - ext4 /dev/vda1 rw\n"
        f"111 102 254:0 {DEPLOY}/{NEW}.0/usr//deleted /usr ro,noatime - ext4 /dev/vda1 rw\n"
    )
    assert all(mount.deleted for mount in parse(text.encode()))


COMPOSEFS = (
    "28 1 0:31 / / ro,relatime shared:1 - overlay composefs"
    " ro,lowerdir+=/run/ostree/.private/cfsroot-lower,datadir+=/sysroot/ostree/repo/objects,redirect_dir=on\n"
    f"61 28 252:4 /ostree/deploy/fedora-coreos/deploy/{NEW}.0/etc /etc rw,relatime shared:2 - xfs /dev/vda4 rw\n"
    "62 28 252:4 / /sysroot ro,relatime shared:3 - xfs /dev/vda4 rw\n"
    "63 28 252:4 /ostree/deploy/fedora-coreos/var /var rw,relatime shared:4 - xfs /dev/vda4 rw\n"
)
UNLOCKED = (
    "149 102 0:47 / /usr rw,relatime shared:12 - overlay overlay"
    " rw,lowerdir=usr,upperdir=/var/tmp/ostree-unlock-ovl.TCPM50/upper,workdir=/var/tmp/ovl.TCPM50/work\n"
)
SYSEXT = (
    "150 135 0:50 / /usr ro,nodev,relatime shared:13 - overlay sysext"
    " ro,lowerdir=/run/systemd/sysext/meta/usr:/run/systemd/sysext/extensions/x/usr:/usr\n"
)


def test_composefs_overlay_and_sysext() -> None:
    assert visible(COMPOSEFS, "/etc/cni/net.d") == 61
    assert visible(COMPOSEFS, "/usr/bin") == 28
    assert visible(TUCKED.replace("135 102", "135 999") + UNLOCKED, "/usr/lib") == 149
    assert visible(TUCKED + SYSEXT, "/usr/lib") == 150
    mount = table(COMPOSEFS).visible("/")
    assert mount is not None and mount.fstype == "overlay" and deployment_of(mount.root) == ("", "")


def test_by_id() -> None:
    found = table(TUCKED)
    mount = found.by_id(149)
    assert mount is not None and mount.point == "/etc"
    assert found.by_id(None) is None and found.by_id(9) is None


@pytest.mark.parametrize(
    ("point", "path", "expected"),
    [("/", "/x", True), ("/etc", "/etc", True), ("/etc", "/etc/x", True), ("/etc", "/etcd", False), ("/", "/", True)],
)
def test_covers(point: str, path: str, expected: bool) -> None:
    assert covers(point, path) is expected


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (f"{DEPLOY}/{OLD}.0/etc/cni/net.d", "/etc/cni/net.d"),
        (f"{DEPLOY}/{OLD}.0", "/"),
        ("/ostree/deploy/debian/var/lib/calico", "/sysroot/ostree/deploy/debian/var/lib/calico"),
        ("/boot/x", "/sysroot/boot/x"),
    ],
)
def test_host_path_of(root: str, expected: str) -> None:
    (mount,) = parse(f"9 8 7:0 {root} /in rw - ext4 /dev/loop0 rw\n".encode())
    assert host_path_of(mount, table(TUCKED), sysroots(table(TUCKED))) == expected


def test_host_path_of_another_device_is_none() -> None:
    (mount,) = parse(b"9 8 0:99 /x /in rw - tmpfs tmpfs rw\n")
    assert host_path_of(mount, table(TUCKED), sysroots(table(TUCKED))) == ""


@pytest.mark.parametrize("fstype", ["nfs4", "nfs", "cifs", "ceph", "fuse.sshfs", "9p", "autofs", "unheard-of"])
def test_a_filesystem_that_may_not_answer(fstype: str) -> None:
    """Invariant 8: what cannot be interrupted is not touched, anywhere on the way."""
    text = TUCKED + f"300 149 0:70 / /etc/cni rw - {fstype} server:/x rw\n"
    mount = table(text).unsafe("/etc/cni/net.d/10-calico.conflist")
    assert mount is not None and mount.id == 300
    assert table(text).unsafe("/etc/hosts") is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"7:0 {DEPLOY}/{OLD}.0/etc/cni/net.d", "/etc/cni/net.d"),
        (f"7:0 {DEPLOY}/{OLD}.0/etc/cni/net.d//deleted", "/etc/cni/net.d"),
        (f"7:0 {DEPLOY}/{OLD}.0", "/"),
        (f"7:9 {DEPLOY}/{OLD}.0/etc/cni/net.d", ""),
        (f"7:0 /ostree/deploy/debian/var/lib/kubelet/pods/x/ostree/deploy/a/deploy/{OLD}.0/etc/cni/net.d", ""),
        (f"7:0 /elsewhere/ostree/deploy/a/deploy/{OLD}.0/etc/cni/net.d", ""),
    ],
)
def test_a_deployment_is_one_of_the_hosts_own_sysroot(line: str, expected: str) -> None:
    """A pod with a subPath of that name in a volume of its own is no leftover of a switch."""
    (mount,) = parse(f"9 8 {line} /in rw - ext4 /dev/loop0 rw\n".encode())
    assert inside_deployment(mount, sysroots(table(TUCKED))) == expected


def test_a_sysroot_in_a_subvolume() -> None:
    """btrfs, and a lab whose disk is a folder: something leads to /ostree (facts: `/root/ostree/deploy/fedora`)."""
    host = f"1 0 0:31 /root/ostree/deploy/fedora/deploy/{OLD}.0 / rw - btrfs /dev/vda4 rw\n"
    (where,) = sysroots(table(host))
    assert where == Sysroot("0:31", "/root")
    (mount,) = parse(f"9 8 0:31 /root/ostree/deploy/fedora/deploy/{NEW}.0/etc /in rw - btrfs /dev/vda4 rw\n".encode())
    assert where.inside(mount) == "/etc"


DOUBTFUL = """\
73 1 7:0 / / rw - nfs4 server:/ rw
80 73 0:5 / /proc rw - proc proc rw
81 73 0:6 / /boot rw - autofs systemd-1 rw
82 81 8:2 / /boot rw - vfat /dev/sda2 rw
83 73 0:7 / /mnt/a\\040b rw - fuse.sshfs x rw
84 73 0:8 / /run rw - tmpfs tmpfs rw
85 84 0:9 / /run/user/0/doc rw - fuse.portal portal rw
"""


@pytest.mark.parametrize(
    ("place", "stops"),
    [
        ("/", False), ("/etc", False), ("/proc", False), ("/boot", False), ("/mnt/a b", True), ("/mnt", False),
        ("/run", False), ("/run/user/0/doc", True), ("/run/user/0", False),
    ],
)  # fmt: skip
def test_where_a_walk_stops(place: str, stops: bool) -> None:
    """Invariant 8. Not at `/` (where that does not answer nothing runs), not at what is covered, and the kernel's own
    are safe. A watched directory behind them is not: there the whole way counts."""
    host = table(DOUBTFUL)
    if stops:
        assert host.stops(place) is not None
    else:
        assert host.stops(place) is None
    assert host.unsafe(place) is not None, "the root is a network's"


HOSTS = """\
1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 8:1 /var /var rw - ext4 /dev/sda1 rw
3 1 0:20 / /usr ro - overlay overlay ro
4 1 0:21 / /run rw - tmpfs tmpfs rw
5 4 0:40 / /run/containerd/io.containerd.runtime.v2.task/k8s.io/x/rootfs rw - overlay overlay rw
6 2 7:3 / /var/lib/kubelet/pods/y/volumes/v rw - ext4 /dev/loop3 rw
7 2 0:41 / /var/lib/containers/storage/overlay/z/merged rw - fuse.fuse-overlayfs fuse-overlayfs rw
"""


@pytest.mark.parametrize(
    ("device", "kind", "at_root", "elsewhere"),
    [
        ("0:40", "overlay", False, True),  # A container's root; elsewhere it may be what a container let appear there.
        ("7:3", "ext4", False, True),
        ("0:41", "fuse.fuse-overlayfs", False, False),  # As the storage driver of the host. Elsewhere never touched.
        ("0:20", "overlay", False, False),
        ("8:1", "ext4", False, False),
        ("0:50", "overlay", True, True),
        ("7:4", "xfs", True, True),  # A loop device may be of a file on what does not answer.
        ("0:51", "btrfs", True, True),
        ("0:52", "tmpfs", False, False),
        ("0:53", "fuse", True, False),
        ("0:54", "nfs4", True, False),
        ("0:5", "overlay", True, True),
        ("0:55", "proc", True, False),
    ],
)
@pytest.mark.parametrize("whole", [True, False])
def test_what_only_a_container_has(device: str, kind: str, at_root: bool, elsewhere: bool, whole: bool) -> None:
    """Invariant 8: an overlay, or a disk, may have behind it what does not answer, memory has nothing behind it, and
    what never is safe is not touched in any case."""
    host = Mounts(HOSTS.encode(), whole=False)
    root = "30 20 0:40 / / rw - overlay overlay rw"

    def own(line: str, place: str) -> bool:
        lines = f"{line}\n" if place == "/" else f"{root}\n{line}\n"
        ways = None if whole else [f"{place}/a"]
        mount = MountTable(Mounts(lines.encode(), ways, is_hosts=host.has)).own(place)
        assert mount is None or mount.device == device
        return mount is not None

    assert own(f"31 30 {device} / / rw - {kind} x rw", "/") == at_root
    assert own(f"31 30 {device} /sub /host/etc rw - {kind} x rw", "/host/etc") == elsewhere
    covered = f"31 30 {device} / /host/etc rw - {kind} x rw\n32 31 0:60 / /host/etc rw - tmpfs tmpfs rw"
    assert not own(covered, "/host/etc")


def test_what_stands_on_the_root_is_not_seen() -> None:
    """path_resolution(7): a walk begins at the process's root, whatever was mounted on that since (a mount that
    reached a container which had changed its root)."""
    text = f"758 755 7:0 {DEPLOY}/{OLD}.0/usr / ro - ext4 a rw\n747 758 7:0 {DEPLOY}/{NEW}.0/usr / rw - ext4 a rw\n"
    for path in ("/", "/lib"):
        mount = table(text).visible(path)
        assert mount is not None and mount.id == 758

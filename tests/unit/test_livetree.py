# SPDX-License-Identifier: Apache-2.0
"""What the mount of /usr, /etc or / says: lines as hosts in the field have them."""

from __future__ import annotations

import pytest

from ostreewatchd.parse.livetree import (
    UsrClass,
    etc_deployment,
    is_composefs_native,
    is_writable,
    shows,
    usr_class,
)
from ostreewatchd.parse.mountinfo import Mount, parse_line

OLD, NEW = "a" * 64, "b" * 64
BOOTED, OTHER = f"debian-{OLD}.0", f"debian-{NEW}.0"
DEPLOY = "/ostree/deploy/debian/deploy"


def mount(line: str) -> Mount:
    found = parse_line(line)
    assert found is not None, line
    return found


RHCOS_ROOT = "32074f0e8e5ec453e56f5a8a7bc9347eaa4172349ceab9c22b709d9d71a3f4b0"
USR = {
    "the boot's own read-only bind of itself": (
        f"102 73 7:0 {DEPLOY}/{OLD}.0/usr /usr ro,relatime shared:2 - ext4 /dev/loop0 rw", BOOTED, UsrClass("self"),
    ),
    "StarlingX's in-service patch": (
        f"135 102 7:0 {DEPLOY}/{NEW}.0/usr /usr ro,noatime shared:3 - ext4 /dev/loop0 rw", BOOTED,
        UsrClass("other-deployment"),
    ),
    "the same, and the deployment was undeployed": (
        f"111 102 254:0 {DEPLOY}/{NEW}.0/usr//deleted /usr ro,noatime - ext4 /dev/vda1 rw", BOOTED,
        UsrClass("deleted"),
    ),
    "composefs, which has no mount of its own for /usr": (
        "28 1 0:31 / / ro,relatime shared:1 - overlay composefs ro,lowerdir+=/run/ostree/.private/cfsroot-lower,"
        "datadir+=/sysroot/ostree/repo/objects,redirect_dir=on,metacopy=on", BOOTED, UsrClass("self"),
    ),
    "composefs as it was mounted first": (
        "28 1 0:31 / / ro,relatime - overlay overlay ro,lowerdir=/run/ostree/.private/cfsroot-lower::"
        "/sysroot/ostree/repo/objects,redirect_dir=on,metacopy=on", BOOTED, UsrClass("self"),
    ),
    "RHCOS 4.8 after rpm-ostree usroverlay": (
        "99 45 0:50 / /usr rw,relatime - overlay overlay rw,seclabel,lowerdir=usr,upperdir=/var/tmp/"
        "ostree-unlock-ovl.TCPM50/upper,workdir=/var/tmp/ostree-unlock-ovl.TCPM50/work", BOOTED,
        UsrClass("ostree-overlay", "development"),
    ),
    "a live-apply since libostree 2025.2: read-only, and its upper directory is a descriptor": (
        "99 45 0:50 / /usr ro,relatime - overlay overlay rw,seclabel,lowerdir=usr,upperdir=/proc/self/fd/7/upper,"
        "workdir=/proc/self/fd/7/work", BOOTED, UsrClass("ostree-overlay", "transient"),
    ),
    "the same by the name of its directory alone": (
        f"99 45 0:50 / /usr ro - overlay overlay rw,lowerdir=/x,upperdir=/ostree/deploy/fedora/backing/{OLD}.0/"
        "usr-transient/upper,workdir=/w", BOOTED, UsrClass("ostree-overlay", "transient"),
    ),
    "hotfix": (
        "149 102 0:47 / /usr rw,relatime shared:12 - overlay overlay rw,lowerdir=usr,upperdir=.usr-ovl-upper,"
        "workdir=.usr-ovl-work", BOOTED, UsrClass("ostree-overlay", "hotfix"),
    ),
    "bootc's own backend": (
        "149 102 0:47 / /usr rw,relatime - overlay transient rw,lowerdir=/proc/self/fd/4,upperdir=/proc/self/fd/5/u",
        "", UsrClass("ostree-overlay", "bootc"),
    ),
    "systemd-sysext": (
        "171 30 0:61 / /usr ro,nodev,relatime - overlay sysext ro,lowerdir=/run/systemd/sysext/meta/usr:"
        "/run/systemd/sysext/k8s/usr:/usr", BOOTED, UsrClass("sysext"),
    ),
    "somebody's own overlay": (
        "171 30 0:61 / /usr ro,relatime - overlay overlay ro,lowerdir=/a:/b", BOOTED, UsrClass("foreign"),
    ),
    "btrfs, whose subvolume stands before the path": (
        f"171 30 0:41 /root{DEPLOY}/{OLD}.0/usr /usr ro - btrfs /dev/vda4 ro,subvol=/root{DEPLOY}/{OLD}.0/usr",
        BOOTED, UsrClass("self"),
    ),
    "RHCOS without a mount of its own for /usr": (
        f"30 1 8:4 /ostree/deploy/rhcos/deploy/{RHCOS_ROOT}.0 / rw,relatime - xfs /dev/sda4 rw,seclabel,prjquota",
        f"rhcos-{RHCOS_ROOT}.0", UsrClass("self"),
    ),
    "a partition of its own": ("31 30 8:3 / /usr ro,relatime - btrfs /dev/vda3 ro", "", UsrClass("foreign")),
    "a plain host": ("30 1 8:4 / / rw,relatime - ext4 /dev/vda1 rw", "", UsrClass("self")),
}  # fmt: skip


@pytest.mark.parametrize("case", USR)
def test_the_class_of_usr(case: str) -> None:
    line, booted, expected = USR[case]
    assert usr_class(mount(line), booted) == expected


def test_without_a_mount_there_is_nothing_to_go_by() -> None:
    assert usr_class(None, BOOTED) == UsrClass("foreign")
    assert etc_deployment(None, BOOTED) == ""
    assert not is_composefs_native(None)


ETC = {
    "RHCOS with composefs: the bind shows its deployment": (
        f"61 1 252:4 {DEPLOY}/{NEW}.0/etc /etc rw,relatime - xfs /dev/vda4 rw", OTHER,
    ),
    "undeployed": (f"61 1 252:4 {DEPLOY}/{NEW}.0/etc//deleted /etc rw,relatime - xfs /dev/vda4 rw", OTHER),
    "transient etc: an overlay, which names no deployment": (
        "61 1 0:52 / /etc rw,relatime - overlay overlay rw,lowerdir=usr/etc,upperdir=/run/ostree/transient-etc.AbCdEf/"
        "upper,workdir=/run/ostree/transient-etc.AbCdEf/work", BOOTED,
    ),
    "no mount of its own": ("28 1 0:31 / / rw,relatime - overlay composefs ro,lowerdir+=/x", BOOTED),
    "NixOS": ("61 1 0:52 / /etc ro,relatime - overlay overlay ro,lowerdir=/nix/store/x-etc-lowerdir", ""),
    "confext": ("61 1 0:52 / /etc ro,relatime - overlay confext ro,lowerdir=/run/systemd/confext/meta/etc:/etc", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", ETC)
def test_whose_etc_it_is(case: str) -> None:
    line, expected = ETC[case]
    assert etc_deployment(mount(line), BOOTED) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [("composefs:3f2a", True), ("transient:composefs=3f2a", True), ("composefs", False), ("/dev/vda4", False)],
)
def test_bootcs_own_backend(source: str, expected: bool) -> None:
    assert is_composefs_native(mount(f"28 1 0:31 / / ro - overlay {source} ro")) is expected


@pytest.mark.parametrize(
    ("options", "of_filesystem", "expected"),
    [
        ("rw,noatime", "rw", True),
        ("ro,noatime", "rw", False),
        ("rw,relatime", "ro,errors=remount-ro", False),
        ("rw", "rw,errors=remount-ro", True),
    ],
)
def test_writable(options: str, of_filesystem: str, expected: bool) -> None:
    assert is_writable(mount(f"61 1 252:4 / /etc {options} - ext4 /dev/vda4 {of_filesystem}")) is expected


LIVE_ETC = f"138 73 7:0 {DEPLOY}/{NEW}.0/etc /etc rw,noatime - ext4 /dev/loop0 rw"
INSIDE = {
    "the live tree": (f"7:0 {DEPLOY}/{NEW}.0/etc", True),
    "a part of it": (f"7:0 {DEPLOY}/{NEW}.0/etc/cni", True),
    "something that has it inside": (f"7:0 {DEPLOY}/{NEW}.0", True),
    "all of the disk": ("7:0 /", True),
    "another device": (f"7:1 {DEPLOY}/{NEW}.0/etc", False),
    "another tree": (f"7:0 {DEPLOY}/{OLD}.0/etc", False),
    "a name that only begins so": (f"7:0 {DEPLOY}/{NEW}.0/etcetera", False),
}


@pytest.mark.parametrize("case", INSIDE)
def test_a_mount_that_shows_the_live_tree(case: str) -> None:
    where, expected = INSIDE[case]
    one = mount(f"142 72 {where} /sysroot{DEPLOY}/{'c' * 64}.0/etc rw - ext4 /dev/loop0 rw")
    assert shows(one, mount(LIVE_ETC), "/etc") is expected


def test_a_live_tree_without_a_mount_of_its_own() -> None:
    root = mount(f"73 48 7:0 {DEPLOY}/{OLD}.0 / rw - ext4 /dev/loop0 rw")
    assert shows(mount(f"142 72 7:0 {DEPLOY}/{OLD}.0/etc /x rw - ext4 /dev/loop0 rw"), root, "/etc")
    assert not shows(mount(f"142 72 7:0 {DEPLOY}/{OLD}.0/usr /x rw - ext4 /dev/loop0 rw"), root, "/etc")
    assert shows(mount("142 72 8:1 /etc /x rw - ext4 /d rw"), mount("1 1 8:1 / / rw - ext4 /d rw"), "/etc")

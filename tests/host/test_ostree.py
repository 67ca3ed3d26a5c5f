# SPDX-License-Identifier: Apache-2.0
"""The state of an OSTree host, read from real mounts and files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ostreewatchd.model import Identity, Inside, Ostree, Snapshot
from tests.host.fakehost import NEW, OLD, bind, mount, umount
from tests.host.namespace import in_namespaces, needs_root
from tests.scenarios.kit.host import Layout, ScenarioHost
from tests.unit.gvariant_writer import booted, staged

pytestmark = needs_root

BOOTED, OTHER = f"debian-{OLD}.0", f"debian-{NEW}.0"
STATE = f"/run/ostree/deployment-state/{OLD}.0"
REFS = "/ostree/repo/refs/heads/rpmostree"
COMMIT = "c" * 64
OWN = "<" if sys.byteorder == "little" else ">"


def identity(path: str) -> Identity:
    found = os.stat(path)
    return Identity(dev=found.st_dev, ino=found.st_ino)


def seen(host: ScenarioHost) -> Snapshot:
    snapshot = host.look()
    assert not snapshot.torn
    return snapshot


@in_namespaces
def test_a_host_at_rest(tmp_path: Path) -> None:
    """An empty /run/ostree-booted is what the libostree of Debian 11 writes."""
    host = ScenarioHost(tmp_path)
    before = seen(host).ostree
    host.write("/run/ostree-booted")
    assert before == Ostree(is_booted=False, root=identity("/"), etc_writable=True)
    assert seen(host).ostree == Ostree(is_booted=True, root=identity("/"), etc_writable=True)


@in_namespaces
def test_a_host_without_ostree(tmp_path: Path) -> None:
    """Not a single file of it is looked for beyond the first."""
    host = ScenarioHost(tmp_path)
    os.mkdir("/tmp/plain")
    mount("tmpfs", "/tmp/plain", "tmpfs")
    os.makedirs("/tmp/plain/proc")
    os.makedirs("/tmp/plain/etc")
    os.makedirs("/tmp/plain/usr")
    os.makedirs("/tmp/plain/run/ostree")
    mount("tmpfs", "/tmp/plain/etc", "tmpfs")
    mount("proc", "/tmp/plain/proc", "proc")
    Path("/tmp/plain/run/ostree/staged-deployment-locked").touch()
    os.chroot("/tmp/plain")
    os.chdir("/")
    snapshot = seen(host)
    assert snapshot.ostree == Ostree(is_booted=False, etc_writable=True)
    assert snapshot.live.deployments.booted == ""


@in_namespaces
def test_what_a_booted_host_lost(tmp_path: Path) -> None:
    """Its record, its link, and what is mounted at /sysroot. Without the kernel's word or that of what prepares
    the root a directory that is called like a deployment makes no boot of it."""
    host = ScenarioHost(tmp_path)
    assert seen(host).ostree.missing == ()
    host.write("/tmp/cmdline", "root=/dev/vda1 ostree=/ostree/boot.1/debian/x/0 quiet")
    bind("/tmp/cmdline", "/proc/cmdline")
    assert seen(host).ostree.missing == ("/run/ostree-booted",)
    umount("/proc/cmdline")
    os.makedirs("/run/ostree/.private")
    assert seen(host).ostree.missing == ("/run/ostree-booted",)
    host.write("/run/ostree-booted")
    assert seen(host).ostree.missing == ()
    os.rename("/ostree", "/ostree.away")
    assert seen(host).ostree.missing == ("/ostree",)
    os.rename("/ostree.away", "/ostree")
    mount("tmpfs", "/sysroot", "tmpfs")
    assert seen(host).ostree.missing == ("/sysroot",)
    umount("/sysroot")
    assert seen(host).ostree.missing == ()


@in_namespaces
def test_the_booted_deployment_of_a_composefs_host(tmp_path: Path) -> None:
    """ostree#3161: neither the mount of / nor stat of / tell it, only the record does."""
    host = ScenarioHost(tmp_path, Layout.COMPOSEFS)
    assert seen(host).live.deployments.booted == ""
    host.write("/run/ostree-booted", booted(identity(host.tree(OLD)), OWN, composefs=True))
    snapshot = seen(host)
    names = snapshot.live.deployments
    assert (names.booted, names.usr, names.etc) == (BOOTED, BOOTED, BOOTED)
    assert (snapshot.live.usr_class, snapshot.live.partial) == ("self", "")
    assert snapshot.ostree.composefs and snapshot.ostree.recorded_root == identity(host.tree(OLD))
    bind(f"{host.tree(NEW)}/etc", "/etc")
    names, live = seen(host).live.deployments, seen(host).live
    assert (names.usr, names.etc) == (BOOTED, OTHER) and live.partial


@in_namespaces
def test_a_record_of_another_byte_order_or_torn_is_no_record(tmp_path: Path) -> None:
    host = ScenarioHost(tmp_path, Layout.COMPOSEFS)
    wrong = ">" if OWN == "<" else "<"
    for data in (booted(identity(host.tree(OLD)), wrong), booted(identity(host.tree(OLD)), OWN)[:-1]):
        host.write("/run/ostree-booted", data)
        snapshot = seen(host)
        assert snapshot.live.deployments.booted == "" and snapshot.ostree.recorded_root is None
        (why,) = snapshot.ostree.unreadable
        assert why.path == "/run/ostree-booted"


@in_namespaces
def test_a_transient_etc_is_the_booted_ones(tmp_path: Path) -> None:
    host = ScenarioHost(tmp_path, Layout.COMPOSEFS)
    transient = "/run/ostree/transient-etc.AbCdEf"
    host.write(
        "/run/ostree-booted",
        booted(identity(host.tree(OLD)), OWN, composefs=True, transient_etc=transient),
    )
    umount("/etc")
    os.makedirs(f"{transient}/upper")
    os.makedirs(f"{transient}/work")
    mount("overlay", "/etc", "overlay", data=f"lowerdir=usr/etc,upperdir={transient}/upper,workdir={transient}/work")
    snapshot = seen(host)
    assert snapshot.live.deployments.etc == BOOTED and snapshot.ostree.transient_etc == transient
    assert snapshot.ostree.etc_writable is True


@in_namespaces
def test_a_soft_reboot_before_its_record_is_renamed(tmp_path: Path) -> None:
    """ostree-soft-reboot.c: until ostree-boot-complete.service has run, the old record stands beside the new one;
    while something is still mounted at /run/nextroot it is only prepared."""
    host = ScenarioHost(tmp_path, Layout.COMPOSEFS)
    host.write("/run/ostree-booted", booted(identity(host.tree(OLD)), OWN, composefs=True))
    host.write("/run/ostree/nextroot-booted", booted(identity(host.tree(NEW)), OWN, composefs=True))
    os.mkdir("/run/nextroot")
    bind(host.tree(NEW), "/run/nextroot")
    snapshot = seen(host)
    assert snapshot.live.deployments.booted == BOOTED and snapshot.ostree.next_root == OTHER
    umount("/etc")
    assert seen(host).live.deployments.booted == BOOTED, "also where /etc tells no deployment"
    bind(f"{host.tree(OLD)}/etc", "/etc")
    umount("/run/nextroot")
    assert seen(host).live.deployments.booted == BOOTED, "it is just being taken back: /etc is still the old one"
    umount("/etc")
    bind(f"{host.tree(NEW)}/etc", "/etc")
    snapshot = seen(host)
    names = snapshot.live.deployments
    assert (names.booted, names.usr, names.etc, snapshot.ostree.next_root) == (OTHER, OTHER, OTHER, "")


@in_namespaces
def test_a_next_root_that_nobody_recorded(tmp_path: Path) -> None:
    host = ScenarioHost(tmp_path)
    os.mkdir("/run/nextroot")
    assert seen(host).ostree.next_root == ""
    mount("tmpfs", "/run/nextroot", "tmpfs")
    assert seen(host).ostree.next_root == "unknown"


@in_namespaces
def test_what_the_next_boot_takes(tmp_path: Path) -> None:
    """Pending is what is neither booted nor live; that the live one is the next one is said apart."""
    host = ScenarioHost(tmp_path)
    link = f"/ostree/boot.1/debian/{COMMIT}/0"
    os.makedirs(os.path.dirname(link))
    os.symlink(f"../../../deploy/debian/deploy/{NEW}.0", link)
    host.write("/boot/loader/entries/ostree-2.conf", f"version 2\noptions ostree={link}\n")
    names = seen(host).live.deployments
    assert (names.pending, names.next_boot) == (OTHER, OTHER)
    host.patch()
    names = seen(host).live.deployments
    assert (names.pending, names.next_boot, names.etc) == ("", OTHER, OTHER)


@in_namespaces
def test_a_staged_deployment(tmp_path: Path) -> None:
    host = ScenarioHost(tmp_path)
    host.write("/run/ostree/staged-deployment", staged(NEW, locked=True))
    host.write("/run/ostree/staged-deployment-locked")
    snapshot = seen(host)
    assert snapshot.live.deployments.staged == OTHER and snapshot.live.deployments.booted == BOOTED
    assert snapshot.ostree.staged_is_locked and snapshot.ostree.lock_file
    host.write("/run/ostree/staged-deployment", b"torn")
    snapshot = seen(host)
    assert snapshot.live.deployments.staged == "" and not snapshot.ostree.staged_is_locked
    assert [one.path for one in snapshot.ostree.unreadable] == ["/run/ostree/staged-deployment"]


@in_namespaces
def test_each_kind_of_unlock(tmp_path: Path) -> None:
    host = ScenarioHost(tmp_path)
    host.unlock(read_only=True)
    live, ostree = seen(host).live, seen(host).ostree
    assert (live.usr_class, live.usr_overlay, ostree.unlocked) == ("ostree-overlay", "transient", ())
    host.write(f"{STATE}/unlocked-transient")
    assert seen(host).ostree.unlocked == ("transient",)
    umount("/usr")
    host.unlock()
    host.write(f"{STATE}/unlocked-development")
    assert seen(host).live.usr_overlay == "development"
    assert seen(host).ostree.unlocked == ("development", "transient")
    host.write(f"/ostree/deploy/debian/deploy/{OLD}.0.origin", "[origin]\nrefspec=x\nunlocked=hotfix\n")
    assert seen(host).ostree.unlocked == ("development", "transient", "hotfix")
    host.write(f"/run/ostree/deployment-state/{NEW}.0/unlocked-development")
    assert seen(host).live.deployments.usr == BOOTED, "its lower directory is the booted one's"


@in_namespaces
def test_a_live_apply_is_under_way_while_its_reference_is_there(tmp_path: Path) -> None:
    """rpm-ostree live.rs: the first one holds no lock. A reference without the booted deployment's stamp is of an
    earlier boot."""
    host = ScenarioHost(tmp_path)
    host.write(f"{REFS}/live-apply", f"{COMMIT}\n")
    host.write(f"{REFS}/live-apply-inprogress", f"{COMMIT}\n")
    snapshot = seen(host)
    assert snapshot.flags == () and not snapshot.ostree.is_live
    assert (snapshot.ostree.live_commit, snapshot.ostree.live_target) == (COMMIT, COMMIT)
    host.write(f"/run/ostree/deployment-state/{NEW}.0/rpmostree-is-live.stamp")
    assert seen(host).flags == (), "the stamp is another deployment's"
    host.write(f"{STATE}/rpmostree-is-live.stamp")
    snapshot = seen(host)
    (flag,) = snapshot.flags
    assert flag.path == f"{REFS}/live-apply-inprogress" and not flag.always and 0 <= flag.age < 60
    assert snapshot.ostree.is_live
    os.unlink(f"{REFS}/live-apply-inprogress")
    assert seen(host).flags == () and seen(host).ostree.live_target == ""


@in_namespaces
def test_what_cannot_be_decoded_is_said(tmp_path: Path) -> None:
    host = ScenarioHost(tmp_path)
    host.write(f"{REFS}/live-apply", "main\n")
    host.write("/run/ostree-booted", b"\xff")
    host.write("/run/ostree/staged-deployment", b"\0\0")
    os.makedirs(f"/ostree/deploy/debian/deploy/{OLD}.0.origin")
    snapshot = seen(host)
    assert sorted(one.path for one in snapshot.ostree.unreadable) == [
        f"/ostree/deploy/debian/deploy/{OLD}.0.origin",
        f"{REFS}/live-apply",
        "/run/ostree-booted",
        "/run/ostree/staged-deployment",
    ]
    assert snapshot.live.deployments.booted == BOOTED, "the rest holds"


@in_namespaces
def test_a_failed_finalization_and_a_boot_that_may_not_answer(tmp_path: Path) -> None:
    """An automount of /boot must not be triggered by a look: it is not touched."""
    host = ScenarioHost(tmp_path)
    host.write("/sysroot/boot/ostree/finalize-failure.stamp", "why")
    bind("/sysroot/boot", "/boot")
    assert seen(host).ostree.finalize_failed
    mount("mqueue", "/boot", "mqueue")
    assert not seen(host).ostree.finalize_failed and not seen(host).ostree.unreadable


@in_namespaces
def test_etc_that_cannot_be_written(tmp_path: Path) -> None:
    """starlingx/update 62f537c: each further patch stacked a read-only bind."""
    host = ScenarioHost(tmp_path)
    host.patch()
    assert seen(host).ostree.etc_writable is True
    bind(f"{host.tree(NEW)}/etc", "/etc", read_only=True)
    assert seen(host).ostree.etc_writable is False


@in_namespaces
def test_mounts_inside_deployments(tmp_path: Path) -> None:
    host = ScenarioHost(tmp_path)
    assert seen(host).ostree.inside == ()
    host.patch()
    assert seen(host).ostree.inside == (
        Inside(deployment=BOOTED, point=f"{host.tree(OLD)}/usr/etc", shows="/usr", writable=False),
        Inside(deployment=BOOTED, point=f"{host.tree(OLD)}/etc", shows="/etc"),
    )
    third = f"{'c' * 64}"
    os.makedirs(f"{host.tree(third)}/etc/cni")
    bind("/etc", f"{host.tree(third)}/etc")
    assert (
        Inside(deployment=f"debian-{third}.0", point=f"{host.tree(third)}/etc", shows="/etc")
        in seen(host).ostree.inside
    )
    mount("none", f"{host.tree(third)}/etc", flags=1 << 18)  # Private: else all its peers were covered too.
    bind("/var", f"{host.tree(third)}/etc")
    assert all(one.deployment == BOOTED for one in seen(host).ostree.inside), "what is covered shows nothing"


@in_namespaces
def test_a_tree_that_was_undeployed_under_the_host(tmp_path: Path) -> None:
    """The directory is gone and what is mounted of it is empty."""
    host = ScenarioHost(tmp_path)
    os.makedirs("/sysroot/away/usr")
    os.makedirs(f"{host.tree('d' * 64)}/usr")
    bind(f"{host.tree('d' * 64)}/usr", "/usr")
    os.rmdir(f"{host.tree('d' * 64)}/usr")
    live = seen(host).live
    assert live.usr_class == "deleted" and live.deployments.usr == f"debian-{'d' * 64}.0"

# SPDX-License-Identifier: Apache-2.0
"""The distribution: a Debian tree from the machine's own mirror, laid out as OSTree wants it."""

import os
import shutil
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.run import run
from tests.lab.stages import Build, Stage

SUITE = "bookworm"
PACKAGES = (
    "systemd", "systemd-sysv", "libsystemd0", "dbus", "python3", "containerd", "runc", "ostree", "iptables",
    "procps", "iproute2", "util-linux", "rpm", "ca-certificates", "containernetworking-plugins", "busybox-static",
    "etcd-server",
)  # fmt: skip
# Not needed on a node, and more than half of all files: each costs time whenever a node is made and removed.
LEFT_OUT = (
    "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/lintian", "usr/share/perl",
    "usr/share/perl5", "usr/share/zoneinfo", "usr/share/bash-completion", "usr/lib/python3.11/idlelib",
    "usr/lib/python3.11/lib2to3", "usr/lib/*/perl", "usr/lib/*/gconv", "var",
)  # fmt: skip
LINKS = {"home": "var/home", "root": "var/roothome", "opt": "var/opt", "srv": "var/srv", "mnt": "var/mnt"}
KERNEL = "lab"


def mirror() -> str:
    """Debian's mirror as this machine's apt knows it."""
    listed = run(
        ["apt-get", "indextargets", "--format", "$(SITE) $(CODENAME)", "Created-By: Packages"], timeout=30
    ).stdout.splitlines()
    sites = [line.split()[0] for line in listed if line.split()[-1:] == [SUITE]] or [
        line.split()[0] for line in listed if "debian" in line and "security" not in line
    ]
    if not sites:
        raise LabError("apt knows no Debian mirror", hint="run apt-get update; the lab takes apt's own mirror")
    return sites[0]


def make(build: Build) -> None:
    tree = build.out / "tree"
    # It mounts /proc and /sys below the tree: killed, it is not to leave them there for who removes the tree.
    build.run(
        "unshare", "--mount", "--propagation", "private",
        "debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", SUITE, str(tree), mirror(),
        timeout=900,
    )  # fmt: skip
    shape(tree)


def shape(tree: Path) -> None:
    """Debian's layout to OSTree's: /etc is a default in /usr, what changes lies in /var, the root is fixed."""
    for pattern in LEFT_OUT:
        for path in tree.glob(pattern):
            shutil.rmtree(path, ignore_errors=True)
    for name in ("dev", "run", "tmp", "proc", "sys", *LINKS):
        shutil.rmtree(tree / name, ignore_errors=True)
    for name in ("dev", "run", "tmp", "proc", "sys", "var", "sysroot", "boot"):
        (tree / name).mkdir(exist_ok=True)
    (tree / "tmp").chmod(0o1777)
    for name, target in LINKS.items():
        (tree / name).symlink_to(target)
    (tree / "ostree").symlink_to("sysroot/ostree")
    # Of the builder's, not of a node's: a node gets them when it is made.
    for name in ("machine-id", "hostname", "resolv.conf"):
        (tree / "etc" / name).unlink(missing_ok=True)
    os.rename(tree / "etc", tree / "usr/etc")
    # libostree refuses a commit without a kernel; any file is one.
    kernel = tree / "usr/lib/modules" / KERNEL
    kernel.mkdir(parents=True, exist_ok=True)
    for name in ("vmlinuz", "initramfs.img"):
        (kernel / name).write_text("not booted: the lab's nodes share the machine's kernel\n")


def stage() -> Stage:
    return Stage(
        "tree",
        make,
        estimate=110,
        hint="does `apt-get update` work here? debootstrap takes its packages from the same mirror",
    )

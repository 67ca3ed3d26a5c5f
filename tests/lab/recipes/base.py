# SPDX-License-Identifier: Apache-2.0
"""The operating system without the product, as one OSTree commit: tree, programs, images, configuration."""

import os
import shutil
from pathlib import Path

from tests.lab import cache
from tests.lab.stages import Build, Stage

FILES = Path(__file__).resolve().parents[1] / "files"
BRANCH = "lab/base"
UNITS = ("lab-prepare.service", "lab-images.service", "containerd.service", "kubelet.service",
         "lab-network.service", "lab-etcd.service", "kube-apiserver.service", "lab-writers.service")  # fmt: skip
# A node has no use for them, and each costs time at boot and power off.
MASKED = ("systemd-firstboot.service", "systemd-networkd-wait-online.service", "apt-daily.timer",
          "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "fstrim.timer", "getty.target",
          "etcd.service", "console-getty.service")  # fmt: skip


def make(build: Build) -> None:
    overlay = build.out / "overlay"
    shutil.copytree(FILES / "usr", overlay / "usr", symlinks=True)
    shutil.copytree(FILES / "etc", overlay / "usr/etc", symlinks=True)
    (overlay / "usr/bin").mkdir(parents=True)
    for program in ("kubelet", "kube-apiserver"):
        os.link(build.inputs["kubernetes"] / program, overlay / "usr/bin" / program)
    (overlay / "usr/share/lab").mkdir(parents=True)
    os.link(build.inputs["image"] / "image.tar", overlay / "usr/share/lab/image.tar")
    os.link(build.inputs["writers"] / "writers.tar", overlay / "usr/share/lab/writers.tar")
    units = overlay / "usr/etc/systemd/system"
    for unit in UNITS:
        target = "sysinit.target" if unit == "lab-prepare.service" else "multi-user.target"
        wants = units / f"{target}.wants"
        wants.mkdir(parents=True, exist_ok=True)
        (wants / unit).symlink_to(f"/usr/lib/systemd/system/{unit}")
    for unit in MASKED:
        (units / unit).symlink_to("/dev/null")
    repo = build.out / "repo"
    init_repo(build, repo)
    build.run(
        "ostree", "commit", f"--repo={repo}", "-b", BRANCH, "-s", "lab base",
        f"--tree=dir={build.inputs['tree'] / 'tree'}", f"--tree=dir={overlay}", timeout=300,
    )  # fmt: skip


def init_repo(build: Build, repo: Path) -> None:
    """A bare repository that does not wait for the disk: what the lab loses it makes again."""
    build.run("ostree", "init", f"--repo={repo}", "--mode=bare", timeout=30)
    for setting in ("core.fsync=false", "core.min-free-space-percent=0"):
        build.run("ostree", "config", f"--repo={repo}", "set", *setting.split("="), timeout=30)


def stage(tree: Stage, kubernetes: Stage, image: Stage, writers: Stage) -> Stage:
    return Stage(
        "base",
        make,
        inputs=(tree, kubernetes, image, writers),
        material=(cache.digest([FILES / "usr", FILES / "etc"], FILES),),
        estimate=15,
        hint="is the disk full?",
    )

# SPDX-License-Identifier: Apache-2.0
"""The product's RPM, and the release: the base with the product installed, as a second commit on top."""

import os
import shutil
import stat
import sys
from pathlib import Path
from typing import Optional

from tests.lab import cache
from tests.lab.errors import LabError
from tests.lab.recipes import base
from tests.lab.run import REPOSITORY
from tests.lab.stages import Build, Stage

BUILDER = REPOSITORY / "packaging/rpm/build.py"
SOURCES = ("ostreewatchd", "systemd", "packaging", "pyproject.toml")
NEEDED = ("packaging/rpm/build.py", "systemd/ostreewatchd.service")
BRANCH = "lab/release"


def make_rpm(build: Build) -> None:
    rpms = build.out / "rpms"
    rpms.mkdir()
    build.run(
        sys.executable,
        str(BUILDER),
        "--python",
        "python3.11",
        "--out",
        str(rpms),
        timeout=600,
        cwd=REPOSITORY,
    )
    found = sorted(rpms.glob("*.rpm"))
    if len(found) != 1:
        raise LabError(f"{BUILDER.name} was to write one rpm, there are {len(found)}")
    os.rename(found[0], build.out / "product.rpm")


def make_release(build: Build) -> None:
    work = build.out / "work"
    work.mkdir()
    rpm = build.inputs["product"] / "product.rpm"
    lower = f"{build.inputs['base'] / 'overlay'}:{build.inputs['tree'] / 'tree'}"
    build.run(
        "unshare", "--mount", "--propagation", "private", str(base.FILES / "install-product"), lower, str(work),
        str(rpm), timeout=120,
    )  # fmt: skip
    upper = work / "upper"
    # overlayfs marks what it did with attributes of its own, which are no content either.
    for name in ("etc", "var", "run", "tmp", "proc", "dev"):  # mount points, not content
        shutil.rmtree(upper / name, ignore_errors=True)
    # A list of files to skip makes ostree read all of the base again: only when the package deletes something.
    gone = _whiteouts(upper)
    skip = build.out / "skip"
    skip.write_text("".join(f"/{path.relative_to(upper)}\n" for path in gone))
    repo = build.out / "repo"
    base.init_repo(build, repo)
    build.run(
        "ostree", "pull-local", f"--repo={repo}", "--disable-fsync", str(build.inputs["base"] / "repo"),
        base.BRANCH, timeout=120,
    )  # fmt: skip
    build.run(
        "ostree", "commit", f"--repo={repo}", "-b", BRANCH, "-s", "lab release",
        *([f"--skip-list={skip}"] if gone else []), f"--tree=ref={base.BRANCH}", f"--tree=dir={upper}", timeout=120,
    )  # fmt: skip
    shutil.rmtree(work, ignore_errors=True)


def _whiteouts(upper: Path) -> list[Path]:
    """What the installation deleted: overlayfs leaves a character device 0/0 in its place."""
    found = []
    for path in upper.rglob("*"):
        seen = path.lstat()
        if stat.S_ISCHR(seen.st_mode) and seen.st_rdev == 0:
            found.append(path)
    return found


def rpm_stage() -> Optional[Stage]:
    """The product of this working tree; none while it cannot be packaged."""
    if not all((REPOSITORY / name).exists() for name in NEEDED):
        return None
    content = cache.digest([REPOSITORY / name for name in SOURCES], REPOSITORY)
    return Stage(
        "product",
        make_rpm,
        material=(content,),
        estimate=20,
        hint=f"try it by hand: python3 {BUILDER} --help",
    )


def given_rpm_stage(rpm: Path) -> Stage:
    """An RPM that exists already, as a stage."""

    def take(build: Build) -> None:
        shutil.copyfile(rpm, build.out / "product.rpm")

    return Stage("product", take, material=(cache.digest([rpm], rpm.parent),), estimate=1)


def release_stage(tree: Stage, os_base: Stage, product: Stage) -> Stage:
    return Stage(
        "release",
        make_release,
        inputs=(tree, os_base, product),
        material=(cache.digest([base.FILES / "install-product"], base.FILES),),
        estimate=8,
        hint="a scriptlet of the package may have failed",
    )

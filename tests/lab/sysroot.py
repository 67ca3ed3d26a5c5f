# SPDX-License-Identifier: Apache-2.0
"""A node's disk: its OSTree repository, its deployments, its boot entries."""

import os
import re
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

from tests.lab.errors import NodeFailed
from tests.lab.run import run

OS = "debian"
BRANCH = "lab/node"
Changes = Mapping[str, Union[bytes, str, None]]


@dataclass(frozen=True)
class Deployment:
    """A line of `ostree admin status`."""

    name: str  # <checksum>.<serial>
    booted: bool
    note: str  # "pending", "rollback", "staged" or nothing

    @property
    def folder(self) -> str:
        """Where it lies, seen from inside."""
        return f"/ostree/deploy/{OS}/deploy/{self.name}"


def parse_status(text: str) -> list[Deployment]:
    """`ostree admin status`, newest first."""
    lines = re.findall(rf"^([* ]) {OS} ([0-9a-f]{{64}}\.\d+)(?: \((\w+)\))?", text, re.MULTILINE)
    return [Deployment(name, star == "*", note) for star, name, note in lines]


class Sysroot:
    """What lies below a node's folder and outlives its power."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.phys = home / "phys"
        self.repo = self.phys / "ostree/repo"
        self.var = self.phys / "ostree/deploy" / OS / "var"
        self._overlay = home / "overlay"
        self._deleted = home / "deleted"
        self._base = home / "base"

    def create(self, repo: Path, branch: str) -> None:
        """Install an operating system: hard links of the repository's files, then the first deployment."""
        self.phys.mkdir()
        (self.home / "root").mkdir()
        self._ostree("admin", "init-fs", "--modern", str(self.phys))
        self._ostree("admin", "os-init", OS, f"--sysroot={self.phys}")
        for setting in ("core.fsync=false", "core.min-free-space-percent=0"):
            self._ostree("config", f"--repo={self.repo}", "set", *setting.split("="))
        self._deleted.write_text("")
        self._overlay.mkdir()
        self.pull(repo, branch)
        self._ostree("refs", f"--repo={self.repo}", branch, f"--create={BRANCH}")
        self.deploy(BRANCH)
        deployment = self.newest()
        (deployment / "etc/machine-id").write_text(f"{uuid.uuid4().hex}\n")
        (deployment / "etc/hostname").write_text(f"{self.home.name}\n")

    def pull(self, repo: Path, branch: str) -> None:
        """Bring a version of the base, with or without the product, which later commits build upon."""
        self._ostree("pull-local", f"--repo={self.repo}", "--disable-fsync", str(repo), branch)
        self._base.write_text(branch)

    def commit(self, changes: Changes) -> str:
        """A commit on the node's branch: the base, all changes so far, and these. Returns its checksum."""
        deleted = set(self._deleted.read_text().split("\n")) - {""}
        for path, content in changes.items():
            inside = _in_commit(path)
            file = self._overlay / inside
            if content is None:
                deleted.add(f"/{inside}")
                if file.is_dir() and not file.is_symlink():
                    shutil.rmtree(file)
                else:
                    file.unlink(missing_ok=True)
                continue
            deleted.discard(f"/{inside}")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.unlink(missing_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
            file.chmod(0o755 if inside.startswith(("usr/bin/", "usr/libexec/")) else 0o644)
        self._deleted.write_text("".join(f"{path}\n" for path in sorted(deleted)))
        return self._ostree(
            "commit", f"--repo={self.repo}", "-b", BRANCH, "-s", "lab",
            f"--tree=ref={self._trimmed(sorted(deleted))}", f"--tree=dir={self._overlay}",
        ).strip()  # fmt: skip

    def _trimmed(self, deleted: list[str]) -> str:
        """The base without some files, as a commit. (`ostree commit --skip-list=` would read every file again.)"""
        base = self._base.read_text()
        if not deleted:
            return base
        checkout = self.home / "trim"
        shutil.rmtree(checkout, ignore_errors=True)
        self._ostree("checkout", f"--repo={self.repo}", "--require-hardlinks", base, str(checkout))
        for path in deleted:
            file = checkout / path.lstrip("/")
            if file.is_dir() and not file.is_symlink():
                shutil.rmtree(file)
            else:
                file.unlink(missing_ok=True)
        trimmed = self._ostree(
            "commit", f"--repo={self.repo}", "-b", "lab/trimmed", "-s", "lab", "--link-checkout-speedup",
            f"--tree=dir={checkout}",
        ).strip()  # fmt: skip
        shutil.rmtree(checkout)
        return trimmed

    def deploy(self, commit: str) -> None:
        """Deploy while the node is off."""
        self._ostree("admin", "deploy", f"--sysroot={self.phys}", f"--os={OS}", "--no-prune", "--retain", commit)

    def newest(self) -> Path:
        """The deployment that a boot loader would boot, as a host path."""
        entry = self.boot_argument()
        return (self.phys / entry.lstrip("/")).resolve(strict=True)

    def boot_argument(self) -> str:
        """`ostree=` of the boot entry with the highest version."""
        best: Optional[str] = None
        best_version = -1
        for entry in (self.phys / "boot/loader/entries").glob("*.conf"):
            text = entry.read_text()
            version = re.search(r"^version (\d+)$", text, re.MULTILINE)
            argument = re.search(r"\bostree=(\S+)", text)
            if version and argument and int(version.group(1)) > best_version:
                best, best_version = argument.group(1), int(version.group(1))
        if best is None:
            raise NodeFailed(f"no boot entry in {self.phys}/boot/loader/entries")
        return best

    def status(self) -> list[Deployment]:
        """The deployments while the node is off."""
        return parse_status(self._ostree("admin", "status", f"--sysroot={self.phys}"))

    def _ostree(self, *arguments: str) -> str:
        # skip-sync: libostree's sync waits for whatever else this machine writes.
        return run(["ostree", *arguments], timeout=120, env={**os.environ, "OSTREE_SYSROOT_OPTS": "skip-sync"}).stdout


def _in_commit(path: str) -> str:
    """A node's path as a commit has it: /etc of a node is merged from the commit's /usr/etc."""
    parts = path.strip("/").split("/")
    if not path.startswith("/") or ".." in parts or parts[0] not in ("usr", "etc"):
        raise NodeFailed(f"a commit cannot carry {path}", hint="absolute paths below /usr or /etc only")
    return "/".join(["usr", *parts] if parts[0] == "etc" else parts)

# SPDX-License-Identifier: Apache-2.0
"""What CRI-O keeps on disk over a restart: the version file, a clean shutdown's mark, and which handler runs what.

Sources: cri-o internal/version (ShouldCrioWipe), server.wipeIfAppropriate, server.Shutdown. Measured: another patch
level does nothing; another minor version, or no version file, removes all sandboxes and containers, and no line of the
log says that it is a wipe; after SIGKILL the mark is missing, the storage is checked, and with a damaged layer CRI-O
becomes ready all the same and knows no pod, while their processes run on."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path

DAMAGED = "damaged-layer"
"""A file of that name in the storage's root is what a check of the storage finds."""


@dataclass(frozen=True)
class Box:
    """A sandbox: what CRI-O's own storage knows of it beside what CRI shows."""

    key: str
    """Name, namespace, uid, attempt: what makes it this one."""
    handler: str
    network: str
    """Of its CNI configuration; empty for the host's network."""


@dataclass
class Memory:
    """Kept in the storage's root."""

    path: Path
    sandboxes: dict[str, Box] = field(default_factory=dict)
    containers: dict[str, str] = field(default_factory=dict)
    """Sandbox, by container."""
    forgotten: list[str] = field(default_factory=list)
    """Ids that a repair threw away."""

    @classmethod
    def read(cls, root: Path) -> Memory:
        memory = cls(root / "stand-in.json")
        if memory.path.exists():
            kept = json.loads(memory.path.read_text())
            memory.sandboxes = {id: Box(**box) for id, box in kept["sandboxes"].items()}
            memory.containers = kept["containers"]
            memory.forgotten = kept["forgotten"]
        return memory

    def write(self) -> None:
        kept = {
            "sandboxes": {id: asdict(box) for id, box in list(self.sandboxes.items())},
            "containers": dict(self.containers),
            "forgotten": self.forgotten,
        }
        replace(self.path, json.dumps(kept))


def replace(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.new")
    new.write_text(text)
    os.replace(new, path)


def must_wipe(version_file: str, version: str) -> bool:
    """Missing, unreadable, or another major or minor version: a restart on a running node is as good as a boot."""
    try:
        found = re.match(r"(\d+)\.(\d+)", str(json.loads(Path(version_file).read_text())))
    except (OSError, ValueError):
        return True
    return found is None or found.groups() != tuple(version.split(".")[:2])


def write_version(version_file: str, version: str) -> None:
    if version_file:
        replace(Path(version_file), json.dumps(f"{version}+unknown"))


def begin_unclean(clean_shutdown_file: str) -> bool:
    """Whether the last run did not end in good order. From here on this one has not either."""
    mark = Path(clean_shutdown_file)
    supported = mark.with_name(f"{mark.name}.supported")
    unclean = supported.exists() and not mark.exists()
    mark.unlink(missing_ok=True)
    replace(supported, "")
    return unclean


def end_clean(clean_shutdown_file: str) -> None:
    replace(Path(clean_shutdown_file), "")

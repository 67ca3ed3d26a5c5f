# SPDX-License-Identifier: Apache-2.0
"""What is known of a node on disk: its folder, who owns it, which processes it is."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Optional

from tests.lab import cache
from tests.lab.errors import NodeFailed

DOOMED = "doomed"


@dataclass(frozen=True)
class Process:
    """A process that no reused pid can be mistaken for."""

    pid: int
    started: int

    @staticmethod
    def of(pid: int) -> Optional["Process"]:
        """The process with that pid, if there is one that is not a zombie."""
        try:
            # The name in parentheses may hold anything: what follows starts after the last one.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return None if fields[0] in "ZX" else Process(pid, int(fields[19]))

    def alive(self) -> bool:
        return Process.of(self.pid) == self


@dataclass(frozen=True)
class Record:
    """A node's file `node.json`. Without an owner it stays until somebody takes it down."""

    name: str
    owner: Optional[Process]
    nspawn: Optional[Process] = None
    leader: Optional[Process] = None

    @property
    def folder(self) -> Path:
        return folder(self.name)

    def running(self) -> bool:
        return self.leader is not None and self.leader.alive()

    def write(self) -> None:
        """Replace the file in one step."""
        new = self.folder / f"node.json.{os.getpid()}"
        new.write_text(json.dumps(asdict(self), indent=1) + "\n")
        new.rename(self.folder / "node.json")


def folder(name: str) -> Path:
    """Where a node of that name lies."""
    return cache.folder("nodes") / name


def read(name: str) -> Record:
    """What is on disk about a node."""
    try:
        stored = json.loads((folder(name) / "node.json").read_text())
        parts = {part: Process(**stored[part]) if stored.get(part) else None for part in ("owner", "nspawn", "leader")}
    except FileNotFoundError:
        raise NodeFailed(f"there is no node {name}", hint="python -m tests.lab status lists them") from None
    except (ValueError, TypeError) as error:
        raise NodeFailed(f"the file of node {name} cannot be read: {error}", hint=f"down {name}") from None
    return Record(name, **parts)


def names() -> list[str]:
    """All nodes that have a folder."""
    found = cache.folder("nodes").iterdir()
    return sorted(path.name for path in found if path.is_dir() and not path.name.startswith("."))

# SPDX-License-Identifier: Apache-2.0
"""A live switch as StarlingX makes it: the binds of an in-service patch, whole or in part."""

import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Optional

from tests.lab.errors import NodeFailed

if TYPE_CHECKING:
    from tests.lab.node import Node

PENDING_FLAG = "/run/mount_pending"
REBOOT_FLAG = "/var/persist/software-agent/node_is_software_updated_rr"


@dataclass
class Switch:
    """One in-service patch; `mounted` tells when each bind was done (CLOCK_REALTIME, seconds)."""

    node: "Node"
    commit: str
    active: str  # the booted deployment's folder: it stays the same for a second patch
    pending: str
    mounted: list[float] = field(default_factory=list)

    @property
    def binds(self) -> tuple[tuple[str, str, str], ...]:
        """Source, target, mode; in StarlingX's order."""
        return (
            (f"{self.pending}/usr", "/usr", "ro,noatime"),
            (f"{self.pending}/etc", "/etc", "rw,noatime"),
            (f"{self.pending}/usr/etc", f"{self.active}/usr/etc", "ro,noatime"),
            (f"{self.pending}/etc", f"{self.active}/etc", "rw,noatime"),
        )

    @property
    def complete(self) -> bool:
        return len(self.mounted) == len(self.binds)

    def resume(self, stop_after: Optional[int] = None) -> "Switch":
        """Do the binds that are left, up to number `stop_after`. The flag stays while some are left."""
        last = len(self.binds) if stop_after is None else stop_after
        if not len(self.mounted) <= last <= len(self.binds):
            raise NodeFailed(f"cannot stop after {last} of {len(self.binds)} binds: {len(self.mounted)} are done")
        # One shell for all of them, mount(8) for each: as apart in time as the original's.
        lines = ["set -e", f": >{PENDING_FLAG}"]
        for source, target, mode in self.binds[len(self.mounted) : last]:
            lines.append(shlex.join(["mount", "--bind", "-o", mode, source, target]))
            lines.append("date +%s.%N")
        if last == len(self.binds):
            lines.append(f"rm -f {PENDING_FLAG}")
        self.mounted += [float(line) for line in self.node.sh("\n".join(lines)).stdout.split()]
        return self


def begin(node: "Node", commit: str) -> Switch:
    """Deploy a commit and find out what is to be mounted where."""
    node.deploy(commit)
    deployments = node.deployments()
    booted = [one for one in deployments if one.booted]
    pending = [one for one in deployments if one.name.startswith(commit) and not one.booted]
    if len(booted) != 1 or not pending:
        raise NodeFailed(f"no booted and pending deployment in {deployments}")
    return Switch(node, commit, booted[0].folder, pending[0].folder)

# SPDX-License-Identifier: Apache-2.0
"""What a container runtime has to do with its CNI configuration directory."""

from __future__ import annotations

from typing import Literal, Optional

from ostreewatchd.model.record import Record
from ostreewatchd.model.sight import Identity

CniWatch = Literal["there", "elsewhere", "none", "unknown"]
"""Whether the runtime's inotify sits on the directory that its path leads to now: `elsewhere`: it watches others
alone; `none`: it watches nothing."""


class CniReader(Record, frozen=True, kw_only=True):
    """A runtime and the directory in which it looks for its network. All as it sees it, in its mount namespace."""

    runtime: str
    pid: int
    unit: str = ""
    mount_namespace: int
    directory: str
    """By its configuration, or by default."""
    identity: Optional[Identity] = None
    watch: CniWatch = "unknown"
    file: str = ""
    """The first file of CNI configuration in it: the one that is used."""
    network: str = ""
    """That this file is of; empty: there is none, or it cannot be read."""
    problem: str = ""
    """Why what is asked here is not known."""

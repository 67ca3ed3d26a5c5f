# SPDX-License-Identifier: Apache-2.0
"""What /proc says of a process, asked of this one."""

from __future__ import annotations

import os
import sys

from ostreewatchd.peers import proc
from ostreewatchd.peers.paths import Root


def test_the_mount_that_a_program_is_on() -> None:
    """The same as statx(2) has for its file; None for a pid that nobody has (proc(5): pid_max is at most 2^22)."""
    with Root("/") as root:
        there = root.what(os.path.realpath(sys.executable)).mount_id
    assert proc.program_mount_id(os.getpid()) == there is not None
    assert proc.program_mount_id((1 << 22) + 1) is None

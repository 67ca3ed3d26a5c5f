# SPDX-License-Identifier: Apache-2.0
"""Makes this process look like a daemon: its name and its command line, as /proc shows them (prctl(2),
proc_pid_cmdline(5))."""

from __future__ import annotations

import ctypes
from pathlib import Path

_PR_SET_NAME = 15
_ARG_START = 47
"""Its place in /proc/self/stat, from 0; the end stands next (proc_pid_stat(5))."""
_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong, ctypes.c_ulong)


def pretend(name: str, *arguments: str) -> None:
    """The kernel keeps fifteen bytes of the name. The arguments are written over this process's own, which are longer;
    without any they stay."""
    buffer = ctypes.create_string_buffer(name.encode()[:15])
    assert _libc.prctl(_PR_SET_NAME, ctypes.addressof(buffer), 0, 0, 0) == 0
    if not arguments:
        return
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = (int(fields[place - 2]) for place in (_ARG_START, _ARG_START + 1))
    line = b"\0".join(one.encode() for one in arguments)
    assert len(line) < end - start, "this process's own command line is too short"
    ctypes.memset(start, 0, end - start)
    ctypes.memmove(start, line, len(line))

# SPDX-License-Identifier: Apache-2.0
"""Confines this process as ostreewatchd.service confines the watcher: a user of its own with two capabilities and
no more, a mount namespace of its own, a /proc that shows processes alone, no openat2(2)."""

from __future__ import annotations

import ctypes
import os

from tests.host.fakehost import mount, unshare_mounts

_USER = 64001
_SYS_PTRACE, _DAC_READ_SEARCH = 19, 2
_CAPABILITIES = 1 << _SYS_PTRACE | 1 << _DAC_READ_SEARCH
_MS_REC_SLAVE = 0x4000 | 1 << 19
_PR_SET_DUMPABLE, _PR_SET_KEEPCAPS, _PR_SET_SECCOMP, _PR_CAPBSET_DROP = 4, 8, 22, 24
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 38, 47
_CAP_VERSION_3 = 0x20080522
_OPENAT2 = 437
_libc = ctypes.CDLL(None, use_errno=True)


class _Rule(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.POINTER(_Rule))]


def confine() -> None:
    """There is no way back. Raises OSError."""
    unshare_mounts()
    mount("none", "/", flags=_MS_REC_SLAVE)
    mount("proc", "/proc", "proc", data="subset=pid,hidepid=invisible")
    for capability in range(64):
        if not _CAPABILITIES >> capability & 1 and _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # The kernel knows no more of them.
    _call("keepcaps", _libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
    os.setgroups([])
    os.setresgid(_USER, _USER, _USER)
    os.setresuid(_USER, _USER, _USER)
    header = (ctypes.c_uint32 * 2)(_CAP_VERSION_3, 0)
    _call("capset", _libc.capset(header, (ctypes.c_uint32 * 6)(_CAPABILITIES, _CAPABILITIES, _CAPABILITIES, 0, 0, 0)))
    for capability in (_SYS_PTRACE, _DAC_READ_SEARCH):
        _call("ambient", _libc.prctl(_PR_CAP_AMBIENT, 2, capability, 0, 0))
    _call("dumpable", _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0))
    _call("no_new_privs", _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _deny_openat2()
    for path in ("/etc", "/proc/1/root/etc"):
        if os.access(path, os.W_OK):
            raise OSError(f"{path} can still be written")


def _deny_openat2() -> None:
    load, equal, answer = 0x20, 0x15, 0x06
    enosys, allow = 0x00050000 | 38, 0x7FFF0000
    rules = (_Rule * 4)(
        _Rule(load, 0, 0, 0), _Rule(equal, 0, 1, _OPENAT2), _Rule(answer, 0, 0, enosys), _Rule(answer, 0, 0, allow)
    )  # fmt: skip
    program = _Program(4, ctypes.cast(rules, ctypes.POINTER(_Rule)))
    _call("seccomp", _libc.prctl(_PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0))


def _call(what: str, result: int) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")

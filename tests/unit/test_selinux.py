# SPDX-License-Identifier: Apache-2.0
"""Which types the policy on disk has and the loaded one lacks. The bytes are of the form that libsepol writes
(type_write); a whole policy of a real host was not at hand."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostreewatchd.observe.selinux import Known, types_missing
from ostreewatchd.parse import sepolicy
from ostreewatchd.peers.paths import Root

NAMES = st.sets(st.from_regex(r"[a-z][a-z0-9_]{0,60}_t", fullmatch=True), max_size=30)


def policy(*names: str) -> bytes:
    """The part of a policy that has the types, each with a number."""
    head = b"\x8c\xff\x7c\xf9\x08\x00\x00\x00SE Linux" + struct.pack("<4I", 33, 1, 8, 7)
    entries = [struct.pack("<4I", len(name), number, 1, 0) + name.encode() for number, name in enumerate(names, 1)]
    return head + b"".join(entries)


@given(NAMES)
def test_each_type_is_found_whatever_stands_beside_it(names: set[str]) -> None:
    assert sepolicy.types(policy(*sorted(names))) == names
    assert sepolicy.types(policy(*sorted(names, reverse=True))) == names


@given(st.binary(max_size=500))
def test_any_bytes_are_no_reason_to_fall_over(data: bytes) -> None:
    sepolicy.types(data)


def write(root: Path, path: str, data: bytes) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def missing(root: Path) -> tuple[str, ...]:
    with Root(str(root)) as one:
        return types_missing(one, {})


def test_what_a_live_apply_brought_and_nobody_loaded(tmp_path: Path) -> None:
    write(tmp_path, "etc/selinux/config", b"SELINUX=enforcing\n# SELINUXTYPE=none\nSELINUXTYPE=other\n")
    write(tmp_path, "etc/selinux/other/policy/policy.9", policy("old_t"))
    write(tmp_path, "etc/selinux/other/policy/policy.33", policy("container_t", "osc_monitor_t"))
    write(tmp_path, "sys/fs/selinux/policy", policy("container_t", "spc_t"))
    assert missing(tmp_path) == ("osc_monitor_t",)
    write(tmp_path, "sys/fs/selinux/policy", policy("osc_monitor_t", "container_t"))
    assert missing(tmp_path) == ()


def test_a_host_without_it_says_nothing(tmp_path: Path) -> None:
    assert missing(tmp_path) == ()
    write(tmp_path, "etc/selinux/config", b"SELINUX=disabled\n")
    write(tmp_path, "etc/selinux/targeted/policy/policy.33", policy("a_t"))
    assert missing(tmp_path) == (), "it is not loaded at all"
    write(tmp_path, "sys/fs/selinux/policy", b"")
    assert missing(tmp_path) == ()


def test_a_policy_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its content: another one under the same name is another one. Nearly a second each time for a real one."""
    searched: list[bytes] = []
    types = sepolicy.types
    monkeypatch.setattr(sepolicy, "types", lambda data: searched.append(data) or types(data))
    write(tmp_path, "etc/selinux/config", b"SELINUXTYPE=other\n")
    write(tmp_path, "etc/selinux/other/policy/policy.33", policy("container_t"))
    write(tmp_path, "sys/fs/selinux/policy", policy("container_t"))
    known: Known = {}
    with Root(str(tmp_path)) as root:
        assert types_missing(root, known) == types_missing(root, known) == ()
        assert len(searched) == 1
        write(tmp_path, "etc/selinux/other/policy/policy.33", policy("container_t", "osc_monitor_t"))
        assert types_missing(root, known) == types_missing(root, known) == ("osc_monitor_t",)
        assert len(searched) == 2

# SPDX-License-Identifier: Apache-2.0
"""What libostree's files in /run say: GVariant byte for byte, and never a guess at what is torn."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostreewatchd.model import Identity
from ostreewatchd.parse import gvariant, ostreestate
from ostreewatchd.parse.gvariant import GVariantError, decode
from ostreewatchd.parse.ostreestate import BootedRecord, OstreeStateError, StagedRecord
from tests.unit.gvariant_writer import Pair, Value, booted, dictionary, staged

A, B = "a" * 64, "b" * 64

# What GLib 2.74 wrote on a little-endian machine: the value, and its bytes.
VECTORS: list[tuple[dict[str, Any], str]] = [
    ({"composefs": True}, "636f6d706f73656673000000000000000100620a14"),
    (
        {"backing-root-device-inode": (64772, 131), "composefs": True, "sysroot-ro": True},
        "6261636b696e672d726f6f742d6465766963652d696e6f64650000000000000004fd000000000000830000000000000000287474291a"
        "0000636f6d706f73656673000000000000000100620a00000000737973726f6f742d726f0000000000000100620b364c64",
    ),
    (
        {
            "backing-root-device-inode": (64772, 131),
            "composefs": True,
            "transient-etc": "/run/ostree/transient-etc.AbCdEf",
        },
        "6261636b696e672d726f6f742d6465766963652d696e6f64650000000000000004fd000000000000830000000000000000287474291a"
        "0000636f6d706f73656673000000000000000100620a000000007472616e7369656e742d6574630000002f72756e2f6f73747265652f"
        "7472616e7369656e742d6574632e4162436445660000730e364c84",
    ),
    (
        {"target": {"name": f"{A}.0", "osname": "debian", "bootcsum": B}, "locked": True},
        "74617267657400006e616d6500000000"
        + "61" * 64
        + "2e300000730500006f736e616d65000064656269616e00007307000000000000626f6f746373756d0000000000000000"
        + "62" * 64
        + "000073094e62bc00617b73767d0700006c6f636b6564000001006207cedc",
    ),
]
SIZES = (21, 103, 135, 222)
BYTES = [bytes.fromhex(text) for _, text in VECTORS]


@pytest.mark.parametrize("number", range(4))
def test_what_glib_wrote(number: int) -> None:
    value, data = VECTORS[number][0], BYTES[number]
    assert len(data) == SIZES[number]
    assert decode("a{sv}", data, "little") == value


@pytest.mark.parametrize("number", range(4))
def test_a_file_that_was_cut_is_no_value(number: int) -> None:
    """GLib would make an empty dictionary of it."""
    for length in range(1, len(BYTES[number])):
        with pytest.raises(GVariantError):
            decode("a{sv}", BYTES[number][:length], "little")


def test_an_empty_file_is_an_empty_dictionary() -> None:
    """Older libostree made /run/ostree-booted empty."""
    assert decode("a{sv}", b"") == {}
    assert ostreestate.booted(b"") == BootedRecord(None, False, "")


TEXTS = st.text(st.characters(min_codepoint=1, max_codepoint=0xD7FF), max_size=40)
VALUES = st.recursive(
    st.one_of(
        st.booleans(),
        TEXTS,
        st.builds(Pair, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
        st.lists(TEXTS, max_size=4),
    ),
    lambda inner: st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=6,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=6), st.sampled_from(["little", "big"]))
@settings(max_examples=150, deadline=None)
def test_what_is_written_is_read(values: dict[str, Value], order: str) -> None:
    data = dictionary(values, "<" if order == "little" else ">")
    try:
        assert decode("a{sv}", data, order) == values
    except GVariantError as error:
        assert "deep" in str(error)


@given(st.sampled_from(BYTES[:3]), st.data())
@settings(max_examples=400, deadline=None)
def test_nothing_is_read_that_would_be_written_otherwise(data: bytes, draw: st.DataObject) -> None:
    """Whatever is accepted is in normal form: no torn file has a second reading. (Where a change made another type of
    a type, `(ut)` of `(tt)`, the bytes stand for another value, which the writer here does not write.)"""
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(changed) - 1))
        changed[at : at + draw.draw(st.integers(0, 2))] = draw.draw(st.binary(max_size=2))
    types_are_kept = all(changed.count(kind) == data.count(kind) for kind in (b"(tt)", b"a{sv}"))
    with contextlib.suppress(GVariantError):
        value = decode("a{sv}", bytes(changed), "little")
        plain = {key: Pair(*one) if isinstance(one, tuple) and len(one) == 2 else one for key, one in value.items()}
        if types_are_kept and all(isinstance(one, (bool, str, Pair, dict)) for one in plain.values()):
            assert dictionary(plain) == bytes(changed)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("b", b"\2"),
        ("b", b""),
        ("s", b"a"),
        ("s", b"a\0b\0"),
        ("s", b"\xff\0"),
        ("at", bytes(12)),
        ("(tt)", bytes(15)),
        ("(yt)", b"\1" + bytes(3) + b"\1" + bytes(11)),
        ("as", b"a\0b\0\4\2"),
        ("as", b"a\0\3"),
        ("(ss)", b"a\0b\0\7"),
        ("(ss)", b"a\0b\0\2\2"),
        ("()", b"\1"),
        ("v", b"abc"),
        ("v", b"\1\0\xff"),
        ("v", b"\1\0bb"),
        ("a{sv}", b"x\0" + bytes(6) + b"\1\0b\2" + b"x\0" + b"\14"),
        ("a{sv}", bytes(gvariant.MAX_BYTES + 1)),
        ("", b""),
        ("a", b""),
        ("{vs}", b""),
        ("{s}", b""),
        ("o", b"/\0"),
        ("a" * 60 + "b", b""),
        ("(" * 80, b""),
    ],
)
def test_what_is_not_in_normal_form_is_no_value(kind: str, data: bytes) -> None:
    with pytest.raises(GVariantError):
        decode(kind, data, "little")


def test_a_key_twice_is_no_dictionary() -> None:
    entry = b"x\0" + bytes(6) + b"\1\0b\2"
    with pytest.raises(GVariantError, match="twice"):
        decode("a{sv}", entry + bytes(4) + entry + bytes([12, 28]), "little")


def test_numbers_and_structures() -> None:
    """Types that libostree may come to use: an integer of each size, structures with padding and with offsets."""
    assert decode("(yiu)", b"\1\0\0\0\xff\xff\xff\xff\2\0\0\0", "little") == (1, -1, 2)
    assert decode("(ty)", bytes([5, *bytes(7), 6, *bytes(7)]), "little") == (5, 6)
    assert decode("(sy)", b"ab\0\7\3", "little") == ("ab", 7)
    assert decode("(ss)", b"ab\0c\0\3", "little") == ("ab", "c")
    assert decode("a{ss}", b"a\0b\0\2\5", "little") == {"a": "b"}
    assert decode("()", b"\0") == ()
    assert decode("aq", b"\1\0\2\0", "big") == [256, 512]
    assert decode("d", b"\0\0\0\0\0\0\xf0\x3f", "little") == 1.0


@given(st.binary(max_size=64), st.sampled_from(["a{sv}", "v", "(ss)", "aas", "a{ss}", "(a{sv}s)", "a(sy)"]))
@settings(max_examples=300, deadline=None)
def test_only_its_own_error(data: bytes, kind: str) -> None:
    with contextlib.suppress(GVariantError):
        decode(kind, data)


def test_no_input_is_slow() -> None:
    """Invariant 8."""
    started = time.process_time()  # Of this process alone: others may be busy.
    for filler in (b"\0", b"\1", b"\xff", b"a\0", b"s\0", b"\0v"):
        for kind in ("a{sv}", "as", "aas", "v", "ay"):
            with contextlib.suppress(GVariantError):
                decode(kind, (filler * gvariant.MAX_BYTES)[: gvariant.MAX_BYTES])
    assert time.process_time() - started < 10


def test_the_booted_deployment() -> None:
    assert ostreestate.booted(BYTES[1], "little") == BootedRecord(Identity(dev=64772, ino=131), True, "")
    assert ostreestate.booted(BYTES[2], "little").transient_etc == "/run/ostree/transient-etc.AbCdEf"
    own = "<" if sys.byteorder == "little" else ">"
    assert ostreestate.booted(booted(Identity(dev=3, ino=4), own)).root == Identity(dev=3, ino=4)


@given(st.integers(1, 2**32 - 1), st.integers(1, 2**63))
def test_the_other_byte_order_is_never_an_identity(dev: int, ino: int) -> None:
    """A device number has 32 bits: read in the wrong order none is one."""
    with pytest.raises(OstreeStateError, match="which no directory has"):
        ostreestate.booted(booted(Identity(dev=dev, ino=ino), ">"), "little")
    with pytest.raises(OstreeStateError, match="which no directory has"):
        ostreestate.booted(booted(Identity(dev=dev, ino=ino), "<"), "big")


def test_the_staged_deployment() -> None:
    assert ostreestate.staged(BYTES[3], "little") == StagedRecord(f"debian-{A}.0", True)
    wild = staged(
        A, "fedora-coreos", serial=12, kargs=["quiet", "ostree=/ostree/boot.1/x/y/0"], bootconfig_extra={"a": "b"}
    )
    assert ostreestate.staged(wild, "little") == StagedRecord(f"fedora-coreos-{A}.12", False)


@pytest.mark.parametrize(
    "data",
    [
        dictionary({}),
        dictionary({"target": "x"}),
        dictionary({"target": {"name": f"{A}.0"}}),
        dictionary({"target": {"name": "../x", "osname": "debian"}}),
        dictionary({"target": {"name": f"{A}.0", "osname": "a/b"}}),
        staged(A, locked="yes"),
        BYTES[3] + b"\0",
        b"[origin]",
    ],
)
def test_what_names_no_staged_deployment(data: bytes) -> None:
    with pytest.raises(OstreeStateError):
        ostreestate.staged(data, "little")


@pytest.mark.parametrize(
    "data",
    [
        dictionary({"backing-root-device-inode": "64772:131"}),
        dictionary({"backing-root-device-inode": True}),
        dictionary({"backing-root-device-inode": Pair(0, 131)}),
        dictionary({"backing-root-device-inode": Pair(64772, 0)}),
        dictionary({"composefs": "true"}),
        dictionary({"transient-etc": True}),
        dictionary({"transient-etc": "run/ostree"}),
        dictionary({"transient-etc": "/run/../etc"}),
    ],
)
def test_what_records_no_booted_deployment(data: bytes) -> None:
    with pytest.raises(OstreeStateError):
        ostreestate.booted(data, "little")


def test_a_reference() -> None:
    assert ostreestate.commit(f"{A}\n".encode()) == A
    for data in (b"", b"\n", A[:-1].encode(), f"{A}{A}".encode(), f"{A} x".encode(), b"\xff" * 64, A.upper().encode()):
        with pytest.raises(OstreeStateError):
            ostreestate.commit(data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[origin]\nrefspec=debian:x\nunlocked=hotfix\n", True),
        ("[origin]\n unlocked = hotfix \n", True),
        ("[origin]\nrefspec=debian:x\n", False),
        ("[libostree-transient]\nunlocked=hotfix\n", False),
        ("[origin]\n#unlocked=hotfix\n", False),
        ("[origin]\nunlocked=development\nunlocked=hotfix\n", True),
        ("unlocked=hotfix", False),
        ("", False),
    ],
)
def test_an_origin(text: str, expected: bool) -> None:
    assert ostreestate.is_hotfix(text.encode()) is expected

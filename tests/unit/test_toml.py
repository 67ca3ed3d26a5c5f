# SPDX-License-Identifier: Apache-2.0
"""The bounds around Python's own reader of TOML: what is no document is an error with its line, and none is slow."""

from __future__ import annotations

import time

import pytest

from ostreewatchd.parse.toml import MAX_BYTES, TomlError, decode

BAD = {
    b"a = 1\na = 2": "line 2: ",
    b"[a]\n\n[a]": "line 3: ",
    b"a = 1 b = 2": "line 1: ",
    b"\n\na =\n1": "line 3: ",
    b'a = "x': "line 1: ",
    b"\nx = \xff": "line 2: no UTF-8",
    b"a = " + b"9" * 5000: "",
    b"a = " + b"[" * 100_000: "",
    b"#" * (MAX_BYTES + 1): "longer than",
}


@pytest.mark.parametrize("data", BAD)
def test_no_documents(data: bytes) -> None:
    with pytest.raises(TomlError) as raised:
        decode(data)
    assert BAD[data] in str(raised.value)


def test_what_is_said_of_a_bad_one_has_no_value_of_it() -> None:
    with pytest.raises(TomlError) as raised:
        decode(b'[registry.auth]\npassword = "s3cret" s3cret')
    assert "s3cret" not in str(raised.value) and raised.value.line == 2


@pytest.mark.parametrize(
    "data",
    [b"a." * (MAX_BYTES // 2), b"a." * (MAX_BYTES // 2 - 4) + b"a=1", b"[" + b"a." * (MAX_BYTES // 2 - 4) + b"a]",
     b'"a".' * (MAX_BYTES // 4 - 4) + b"a=1", b"x={" + b"a." * (MAX_BYTES // 2 - 8) + b"a=1}"],
)  # fmt: skip
def test_a_key_of_very_many_parts_is_none(data: bytes) -> None:
    """The reader copies all parts of a key for each of them."""
    since = time.process_time()
    with pytest.raises(TomlError):
        decode(data)
    assert time.process_time() - since < 5


def test_many_dots_that_are_no_keys() -> None:
    addresses = ", ".join(f'"10.0.{one}.1"' for one in range(200))
    assert len(decode(f"a = [{addresses}]".encode())["a"]) == 200

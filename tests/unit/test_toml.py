# SPDX-License-Identifier: Apache-2.0
"""The reader of TOML, against the specification's own examples, and against Python's own reader where there is one."""

from __future__ import annotations

import importlib
import random
import sys
from typing import Any

import pytest

from ostreewatchd.parse.toml import MAX_BYTES, TomlError, decode

GOOD: dict[bytes, Any] = {
    b"": {},
    b"\xef\xbb\xbfa = 1 # one\r\n": {"a": 1},
    b"[a]\n[b.c]\nx = true\n[b]\ny = -1_000": {"a": {}, "b": {"c": {"x": True}, "y": -1000}},
    b"a.'b.c'.\"d\" = 'C:\\x'": {"a": {"b.c": {"d": "C:\\x"}}},
    b"a.b = 1\na.c = 2": {"a": {"b": 1, "c": 2}},
    b'a = "\\u00e9\\t\\"\\U0001F600"': {"a": 'é\t"😀'},
    b'a = """\none\\\n   two"""': {"a": "onetwo"},
    b'a = """x"""""': {"a": 'x""'},
    b"a = '''\n'x''y'''''": {"a": "'x''y''"},
    b"a = [1, [2.5, 0xff, 0o17, 0b11], # none\n {b = 1, c.d = []},\n]": {
        "a": [1, [2.5, 255, 15, 3], {"b": 1, "c": {"d": []}}]
    },
    b"[[a]]\nx = 1\n[[a]]\n[a.b]\ny = 1979-05-27 07:32:00": {"a": [{"x": 1}, {"b": {"y": "1979-05-27 07:32:00"}}]},
    b"[plugins.'io.containerd.cri.v1.runtime'.cni]\nbin_dirs = ['/opt/cni/bin']": {
        "plugins": {"io.containerd.cri.v1.runtime": {"cni": {"bin_dirs": ["/opt/cni/bin"]}}}
    },
}
BAD = {
    b"a = 1\na = 2": "line 2: 'a' is there twice",
    b"[a]\n\n[a]": "line 3: 'a' is there twice",
    b"a = {b = 1}\na.c = 2": "line 2: 'a' is no table",
    b"a = {b = 1}\n[a.c]": "line 2: 'a' is no table",
    b"a.b = 1\n[a]": "line 2: 'a' is there twice",
    b"a = [1]\n[[a]]": "line 2: 'a' is no array of tables",
    b"a = 1 b = 2": "behind what should be the whole line",
    b"= 1": "no name",
    b"a": "a name without a value",
    b"a =\n1": "line 1: no value",
    b"a = 01": "neither text nor a number",
    b"a = yes": "neither text nor a number",
    b'a = "x\n"': "a text without its end",
    b"a = '''x": "a text without its end",
    b'a = "\\x"': "means nothing",
    b'a = "\\ud800"': "means nothing",
    b"a = [1 2]": "an array without its end",
    b"a = {b = 1,}": "no name",
    b"a = {b = 1": "without its end",
    b"[a": "without its end",
    b"\nx = \xff": "line 2: no UTF-8",
    b"a = " + b"9" * 101: "no value",
    b"a = " + b"[" * 100: "too many",
    b".".join([b"a"] * 100) + b" = 1": "too many parts",
    b"#" * (MAX_BYTES + 1): "larger than",
}


@pytest.mark.parametrize("data", GOOD)
def test_documents(data: bytes) -> None:
    assert decode(data) == GOOD[data]


@pytest.mark.parametrize("data", BAD)
def test_no_documents(data: bytes) -> None:
    with pytest.raises(TomlError) as raised:
        decode(data)
    assert BAD[data] in str(raised.value)


def test_what_is_said_of_a_bad_one_has_no_value_of_it() -> None:
    with pytest.raises(TomlError) as raised:
        decode(b'[registry.auth]\npassword = "s3cret" s3cret')
    assert "s3cret" not in str(raised.value) and raised.value.line == 2


WORDS = (
    b"a", b"b", b".", b"=", b"[", b"]", b"{", b"}", b'"', b"'", b'"""', b"'''", b"\n", b" ", b"1", b"-", b"#", b",",
    b"true", b"1.5", b"\\n", b"\\", b"[a]\n", b"a.b=1\n", b"[[b]]\n", b"a={b=1}\n",
)  # fmt: skip


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no reader of its own here")
def test_the_same_as_pythons_own() -> None:
    theirs: Any = importlib.import_module("tomllib")
    dice = random.Random(3)
    for _ in range(6000):
        data = b"".join(dice.choice(WORDS) for _ in range(dice.randint(1, 14)))
        try:
            wanted = theirs.loads(data.decode())
        except theirs.TOMLDecodeError:
            wanted = None
        try:
            found: Any = decode(data)
        except TomlError:
            found = None
        assert found == wanted, data

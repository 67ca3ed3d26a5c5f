# SPDX-License-Identifier: Apache-2.0
"""The configuration: what is valid is in effect, what is not is named with its file and line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ostreewatchd import settings
from ostreewatchd.model import Settings
from ostreewatchd.parse.settings import MAX_BYTES, parse
from tests.unit.sources import ROOT

WHOLE = b"""\
# a comment
; another one
[Watch]
SettleSec=500ms
SettleCapSec = 2min
ResyncSec=1h
CNIDirectories=/etc/cni/net.d /var/lib/x/cni/

[Remediation]
Mode=observe
ProofSec=45
"""


def test_a_whole_file() -> None:
    values, complaints = parse("f", WHOLE)
    assert not complaints
    assert values == {
        "settle": 0.5,
        "settle_cap": 120.0,
        "resync": 3600.0,
        "cni_directories": ("/etc/cni/net.d", "/var/lib/x/cni"),
        "mode": "observe",
        "proof": 45.0,
    }


def test_an_unknown_key_is_named_with_file_and_line_and_the_rest_holds() -> None:
    """Invariant 12."""
    values, complaints = parse("/etc/x.conf", b"[Watch]\nSettleSecs=1\nSettleSec=2s\n")
    assert values == {"settle": 2.0}
    (complaint,) = complaints
    assert str(complaint).startswith("/etc/x.conf:2: unknown key 'SettleSecs' in section [Watch]")
    assert "SettleSec" in complaint.what and "ResyncSec" in complaint.what


def test_a_key_in_the_wrong_section() -> None:
    values, (complaint,) = parse("f", b"[Watch]\nProofSec=1\n")
    assert not values and complaint.what == "unknown key ProofSec in section [Watch]: it belongs into [Remediation]"


def test_an_unknown_section() -> None:
    values, complaints = parse("f", b"\n[Wtach]\nSettleSec=1\n[Watch]\nSettleSec=1\n")
    assert values == {"settle": 1.0}
    assert [one.line for one in complaints] == [2, 3]
    assert complaints[0].what == "unknown section [Wtach]"


@pytest.mark.parametrize("odd", ["\u2028", "\x0c", "\x85", "\x1c", "\r"])
def test_lines_are_counted_as_editors_do(odd: str) -> None:
    _, complaints = parse("f", f"# one{odd}line\n[Watch]\nBogus=1\n".encode())
    assert [one.line for one in complaints] == [3]


def test_windows_line_ends() -> None:
    assert parse("f", b"[Remediation]\r\nMode=observe\r\n") == ({"mode": "observe"}, [])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("SettleSec=soon", "number of seconds"),
        ("SettleSec=", "number of seconds"),
        ("SettleSec=5d", "between 0.05 and 60"),
        ("SettleSec=nan", "between 0.05 and 60"),
        ("SettleSec=inf", "between 0.05 and 60"),
        ("SettleSec=-1", "between 0.05 and 60"),
        ("SettleSec=0", "between 0.05 and 60"),
        ("SettleCapSec=2s", "between 5 and 86400"),
        ("ResyncSec=1", "between 10 and 86400"),
        ("CNIDirectories=etc/cni", "absolute path"),
        ("CNIDirectories=/", "absolute path"),
        ("CNIDirectories=/etc/cni /a/../b", "'/a/../b'"),
        ("CNIDirectories=/etc/..", "absolute path"),
        ("CNIDirectories=/etc/cni/net.d /etc", "too wide"),
        ("just words", "neither a section nor Key=value"),
        ("[Watch", "neither a section nor Key=value"),
    ],
)
def test_a_bad_value(line: str, why: str) -> None:
    values, (complaint,) = parse("f", f"[Watch]\n{line}\n".encode())
    assert not values and complaint.line == 2 and why in complaint.what


@pytest.mark.parametrize("text", ["Heal", "Observe", "off", "", "observe heal"])
def test_a_bad_mode_is_observe(text: str) -> None:
    """Who wrote it meant another mode than the default, and a restart cannot be taken back."""
    values, (complaint,) = parse("f", f"[Remediation]\nMode={text}\n".encode())
    assert values == {"mode": "observe"}
    assert complaint.what.endswith("must be heal or observe; taken as Mode=observe")


@pytest.mark.parametrize("section", ["", "[Watch]", "[Remediate]"])
def test_a_mode_in_the_wrong_section_is_observe(section: str) -> None:
    values, complaints = parse("f", f"{section}\nMode=observe\n".encode())
    assert values == {"mode": "observe"} and complaints[-1].what.endswith("; taken as Mode=observe")


def test_a_later_file_mends_a_mistaken_mode(places: tuple[Path, Path]) -> None:
    write(places[0] / "ostreewatchd.conf", "[Remediation]\nMode=off\n")
    found, complaints = load(places)
    assert found.mode == "observe" and "taken as Mode=observe" in complaints[0]
    write(places[0] / "ostreewatchd.conf.d/10-mode.conf", "[Remediation]\nMode=heal\n")
    assert load(places)[0].mode == "heal"


def test_a_file_of_absurd_size_is_not_read() -> None:
    values, (complaint,) = parse("f", b"[Remediation]\nMode=observe\n" + b"#" * MAX_BYTES)
    assert not values and "larger than" in complaint.what


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "etc", tmp_path / "usr"


def load(places: tuple[Path, Path]) -> tuple[Settings, list[str]]:
    found, complaints = settings.load([str(place) for place in places])
    return found, [str(one) for one in complaints]


def test_no_file_is_the_defaults(places: tuple[Path, Path]) -> None:
    assert load(places) == (Settings(), [])


def test_the_administrators_file_hides_the_vendors(places: tuple[Path, Path]) -> None:
    write(places[1] / "ostreewatchd.conf", "[Watch]\nSettleSec=5\n[Remediation]\nMode=observe\n")
    assert load(places)[0] == Settings(settle=5.0, mode="observe")
    write(places[0] / "ostreewatchd.conf", "[Watch]\nSettleSec=7\n")
    assert load(places)[0] == Settings(settle=7.0)


def test_drop_ins_are_merged_by_name_and_the_later_wins(places: tuple[Path, Path]) -> None:
    write(places[1] / "ostreewatchd.conf.d/10-a.conf", "[Watch]\nSettleSec=1\nResyncSec=100\n")
    write(places[1] / "ostreewatchd.conf.d/20-b.conf", "[Watch]\nSettleSec=2\n")
    write(places[0] / "ostreewatchd.conf.d/20-b.conf", "[Watch]\nSettleSec=3\n")
    write(places[0] / "ostreewatchd.conf", "[Watch]\nSettleSec=9\n[Remediation]\nProofSec=30\n")
    assert load(places) == (Settings(settle=3.0, resync=100.0, proof=30.0), [])


def test_a_link_to_dev_null_masks(places: tuple[Path, Path]) -> None:
    write(places[1] / "ostreewatchd.conf.d/10-a.conf", "[Watch]\nSettleSec=1\n")
    (places[0] / "ostreewatchd.conf.d").mkdir(parents=True)
    (places[0] / "ostreewatchd.conf.d/10-a.conf").symlink_to("/dev/null")
    assert load(places) == (Settings(), [])


def test_what_is_not_read_is_said(places: tuple[Path, Path]) -> None:
    write(places[0] / "ostreewatchd.conf.d/10-a.conf.rpmsave", "[Watch]\nSettleSec=1\n")
    (places[0] / "ostreewatchd.conf").mkdir()
    found, complaints = load(places)
    assert found == Settings() and len(complaints) == 2
    assert any("does not end in .conf" in one for one in complaints)
    assert any("cannot be read: Is a directory" in one for one in complaints)


def test_a_file_without_permission_is_said(places: tuple[Path, Path]) -> None:
    """As who may not read it: of root there is a child that gives up its rights."""
    write(places[0] / "ostreewatchd.conf", "[Remediation]\nMode=observe\n")
    (places[0] / "ostreewatchd.conf").chmod(0)
    for folder in places[0].parents:
        if folder.stat().st_uid == os.geteuid() and "pytest-" in str(folder):
            folder.chmod(0o755)
    code = """
import os, sys
from ostreewatchd.settings import load
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(*load(sys.argv[1:])[1], sep="\\n")
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, places)], cwd=ROOT, capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    assert "ostreewatchd.conf" in done.stdout and "Permission denied" in done.stdout


def test_the_packaged_file_shows_the_defaults_and_every_key() -> None:
    text = (ROOT / "packaging/ostreewatchd.conf").read_text(encoding="utf-8")
    assert parse("f", text.encode()) == ({}, [])
    spoken = re.sub(r"(?m)^#(\w+=)", r"\1", text)
    values, complaints = parse("f", spoken.encode())
    assert not complaints
    defaults = Settings()
    assert values == {name: getattr(defaults, name) for name in Settings.__struct_fields__}

# SPDX-License-Identifier: Apache-2.0
"""Certificates that openssl made, and bytes that are none: end and subject, never more, and no other error."""

from __future__ import annotations

import base64
import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostreewatchd.model import day_of
from ostreewatchd.parse import x509


def made(folder: Path, subject: str, *more: str) -> bytes:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl(1)")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
               subject, "-keyout", "key.pem", "-out", "one.crt", *more]  # fmt: skip
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (folder / "one.crt").read_bytes()


def end_of(folder: Path) -> float:
    """What openssl says."""
    command = ["openssl", "x509", "-in", "one.crt", "-noout", "-enddate"]
    text = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    command = ["date", "-u", "+%s", "-d", text.strip().partition("=")[2]]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize(("days", "subject", "name"), [
    (365, "/O=system:masters/CN=kube-apiserver", "kube-apiserver"),
    (365 * 90, "/CN=a b\u00fc", "a b\u00fc"),  # after 2049 the other form of a time
    (1, "/O=nobody", ""),
])  # fmt: skip
def test_what_openssl_made(tmp_path: Path, days: int, subject: str, name: str) -> None:
    data = made(tmp_path, subject, "-days", str(days), "-utf8")
    (known,) = x509.parse(data)
    assert known[:2] == (name, end_of(tmp_path)) and known.ends_at - known.starts_at == days * 86400
    assert x509.parse(b"x\n" + data + (tmp_path / "key.pem").read_bytes() + data) == [known, known]
    assert x509.parse((tmp_path / "key.pem").read_bytes()) == []


def test_cut_and_changed(tmp_path: Path) -> None:
    """Invariant 12: each byte missing or wrong is no certificate or another one, and never another error."""
    whole = base64.b64decode(b"".join(made(tmp_path, "/CN=x").splitlines()[1:-1]))
    for end in range(len(whole)):
        with pytest.raises(x509.CertificateError):
            x509.of_der(whole[:end])
    for place in range(200):
        for value in (0, 0x30, 0x80, 0x84, 0xFF):
            try:
                x509.of_der(whole[:place] + bytes((value,)) + whole[place + 1 :])
            except x509.CertificateError:
                continue


@given(st.binary(max_size=300))
def test_anything(data: bytes) -> None:
    with contextlib.suppress(x509.CertificateError):
        x509.of_der(data)
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(data) + b"\n-----END CERTIFICATE-----\n"
    assert len(x509.parse(pem)) <= 1
    assert x509.parse(data) == []


@pytest.mark.parametrize(("moment", "day"), [
    (0, "1970-01-01"), (951782400, "2000-02-29"), (951868800, "2000-03-01"), (1_800_000_000, "2027-01-15"),
    (4102444800, "2100-01-01"), (4107542399, "2100-02-28"), (4107542400, "2100-03-01"), (1735689599, "2024-12-31"),
])  # fmt: skip
def test_days(moment: float, day: str) -> None:
    """By date(1)."""
    assert day_of(moment) == day

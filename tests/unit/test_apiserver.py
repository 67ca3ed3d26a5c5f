# SPDX-License-Identifier: Apache-2.0
"""Whether an API server takes a credential, asked of a real TLS server; and what is never sent or shown."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest

from ostreewatchd.parse.kubeconfig import Access, KubeconfigError, access
from ostreewatchd.peers.apiserver import accepts
from tests.fakes.credentials import FORMS, kubeconfig, token
from tests.fakes.kubelet_api import FakeKubeletApi, http

SECRET = token(1_800_000_000.0)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl(1)")
    folder = tmp_path_factory.mktemp("pki")
    for name in ("server", "stranger"):
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                   "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2",
                   "-keyout", f"{name}.key", "-out", f"{name}.crt"]  # fmt: skip
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    return folder


@pytest.fixture
def fake(pki: Path) -> Iterator[FakeKubeletApi]:
    with FakeKubeletApi(pki / "server.crt", pki / "server.key") as server:
        yield server


def way(fake: FakeKubeletApi, pki: Path, **more: Any) -> Access:
    authority = (pki / "server.crt").read_bytes()
    return Access("127.0.0.1", fake.port, authority, True, SECRET, b"", b"")._replace(**more)


@pytest.mark.parametrize(("status", "taken"), [(200, True), (403, True), (401, False), (429, True), (503, None)])
def test_by_the_status(fake: FakeKubeletApi, pki: Path, status: int, taken: Optional[bool]) -> None:
    fake.answers["/version"] = http(b"{}", status)
    fake.answers["/readyz"] = http(b"ok")
    assert accepts(way(fake, pki), deadline=10) is taken
    head, *more = fake.heads
    assert all("Authorization" not in one for one in more), "whether it is ready it tells everybody"
    assert head.startswith("GET /version HTTP/1.0") and f"Authorization: Bearer {SECRET}" in head


def test_what_does_not_tell(fake: FakeKubeletApi, pki: Path) -> None:
    fake.answers["/version"] = b"SSH-2.0-x\r\n"
    assert accepts(way(fake, pki), deadline=10) is None
    fake.answers["/version"] = lambda secured: time.sleep(1.5)
    began = time.monotonic()
    assert accepts(way(fake, pki), deadline=0.3) is None and time.monotonic() - began < 1.4
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    assert accepts(way(fake, pki, port=port), deadline=5) is None
    assert accepts(way(fake, pki, authority=b"no certificate"), deadline=5) is None
    assert accepts(way(fake, pki, certificate=b"none", key=b""), deadline=5) is None


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_a_server_that_is_not_ready_refuses_nobody(fake: FakeKubeletApi, pki: Path, status: int) -> None:
    """It answers 401 to good tokens, too, as long as it cannot look up their accounts."""
    fake.answers["/version"] = http(b"{}", 401)
    fake.answers["/readyz"] = http(b"[-]etcd failed", status)
    assert accepts(way(fake, pki), deadline=10) is None


def test_nothing_is_sent_to_a_stranger(fake: FakeKubeletApi, pki: Path) -> None:
    fake.answers["/version"] = http(b"{}", 401)
    assert accepts(way(fake, pki, authority=(pki / "stranger.crt").read_bytes()), deadline=10) is None
    assert accepts(way(fake, pki, checked=False), deadline=10) is None, "nor to one who need not show any"
    assert not fake.heads


def test_a_client_certificate(pki: Path) -> None:
    with FakeKubeletApi(pki / "server.crt", pki / "server.key", pki / "stranger.crt") as fake:
        fake.answers["/version"] = http(b"{}")
        mine = {"certificate": (pki / "stranger.crt").read_bytes(), "key": (pki / "stranger.key").read_bytes()}
        assert accepts(way(fake, pki, token="", **mine), deadline=10) is True
        assert "Authorization" not in fake.heads[0]


@pytest.mark.parametrize("writer", ["calico", "multus", "whereabouts", "istio-cni", "ovn4nfv"])
def test_each_writers_file(writer: str) -> None:
    found = access(kubeconfig(writer, SECRET).encode())
    assert (found.host, found.port, found.token, found.checked) == ("10.96.0.1", 443, SECRET, True)
    assert b"BEGIN CERTIFICATE" in found.authority
    assert SECRET[:8] not in repr(found) and writer in FORMS


@pytest.mark.parametrize(
    ("written", "host"),
    [("[::ffff:10.77.0.1]", "10.77.0.1"), ("[fd00::1]", "fd00::1"), ("api.example", "api.example")],
)
def test_a_mapped_address_is_the_one_that_certificates_name(written: str, host: str) -> None:
    cluster = f"clusters: [{{name: a, cluster: {{server: 'https://{written}:6443'}}}}]"
    text = f"{cluster}\nusers: [{{name: a, user: {{token: x}}}}]"
    assert access(text.encode()).host == host


@pytest.mark.parametrize(
    "text",
    [
        "",
        "users: []",
        "clusters: [{name: a, cluster: {server: 'http://x'}}]\nusers: [{name: a, user: {token: x}}]",
        "clusters: [{name: a, cluster: {server: 'https://x:y'}}]\nusers: [{name: a, user: {token: x}}]",
        "clusters: [{name: a, cluster: {server: 'https://[x'}}]\nusers: [{name: a, user: {token: x}}]",
        "clusters: [{name: a, cluster: {server: 'https://x'}}]\nusers: [{name: a, user: {tokenFile: /x}}]",
        "clusters: [{name: a, cluster: {server: 'https://x', certificate-authority-data: '?'}}]\n"
        "users: [{name: a, user: {token: x}}]",
    ],
)
def test_none_that_can_be_used(text: str) -> None:
    with pytest.raises(KubeconfigError):
        access(text.encode())


def test_a_token_that_would_be_another_line_is_not_sent() -> None:
    data = base64.b64encode(b"x").decode()
    text = f'{{"clusters": [{{"cluster": {{"server": "https://[::1]:1", "certificate-authority-data": "{data}"}}}}],' \
           '"users": [{"user": {"token": "a\\r\\nHost: b"}}]}'  # fmt: skip
    found = access(text.encode())
    assert (found.host, found.token, found.authority) == ("::1", "", b"x")

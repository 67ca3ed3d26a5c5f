# SPDX-License-Identifier: Apache-2.0
"""The client of kubelet's API against a real TLS server: what it reads, whom it trusts, what it never sends."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostreewatchd.model import PodSeen
from ostreewatchd.parse import kubeletpods
from ostreewatchd.peers import kubeletapi
from ostreewatchd.peers.kubeletapi import Access, KubeletApi
from tests.fakes.kubelet_api import FakeKubeletApi, http

SECRET = "eyJhbGciOi.c2VjcmV0.c2lnbmF0dXJl"


class Pki:
    """An authority, a certificate of its for a server, one for a client, and somebody else's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("authority", "stranger"):
            self._make("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                       f"/CN={name}", "-days", "2", "-keyout", f"{name}.key", "-out", f"{name}.crt")  # fmt: skip
        for name in ("server", "client"):
            self._make("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                       "-keyout", f"{name}.key", "-out", f"{name}.csr")  # fmt: skip
            self._make("x509", "-req", "-in", f"{name}.csr", "-CA", "authority.crt", "-CAkey", "authority.key",
                       "-CAcreateserial", "-days", "2", "-out", f"{name}.crt")  # fmt: skip

    def _make(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True, timeout=60)

    def __getitem__(self, name: str) -> Path:
        return self.folder / name

    def der(self, name: str) -> bytes:
        return ssl.PEM_cert_to_DER_cert(self[name].read_text())


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl(1)")
    return Pki(tmp_path_factory.mktemp("pki"))


@pytest.fixture
def fake(pki: Pki) -> Iterator[FakeKubeletApi]:
    with FakeKubeletApi(pki["server.crt"], pki["server.key"]) as server:
        yield server


NOTHING = Access()


def api(fake: FakeKubeletApi, *serving: bytes, access: Access = NOTHING, deadline: float = 5.0) -> KubeletApi:
    return KubeletApi("127.0.0.1", fake.port, access, serving, deadline=deadline)


def pod_list(*pods: dict[str, Any]) -> bytes:
    return http(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": pods or None}).encode())


POD = {
    "metadata": {"name": "web", "namespace": "shop", "uid": "u-1", "annotations": {"secret": SECRET}},
    "spec": {"priorityClassName": "system-node-critical", "containers": [{"env": [{"value": SECRET}]}]},
    "status": {
        "phase": "Running",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Ready", "status": "False", "lastTransitionTime": "2026-12-01T03:00:01Z"},
        ],
        "initContainerStatuses": [{"restartCount": 1, "state": {"terminated": {"exitCode": 0}}}],
        "containerStatuses": [{"restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}],
    },
}


def test_what_it_reads(fake: FakeKubeletApi, pki: Pki) -> None:
    client = api(fake, pki.der("server.crt"))
    fake.answers = {
        "/pods": pod_list(POD, {"metadata": {"name": "bare"}}),
        "/runningpods/": pod_list({"metadata": {"uid": "u-1"}}),
        "/metrics": http(b"# HELP\nkubelet_pleg_last_seen_seconds 1.796e+09\nother 1\n"),
        "/healthz": http(b"ok"),
    }
    web, bare = client.pods()
    assert web == PodSeen(
        namespace="shop", name="web", uid="u-1", phase="Running", ready=False, ready_changed_wall=1796094001.0,
        waiting=("CrashLoopBackOff",), restarts=5, critical=True,
    )  # fmt: skip
    assert bare == PodSeen(namespace="", name="bare", uid="")
    assert client.running() == ("u-1",)
    assert client.pleg() == 1.796e9
    assert client.healthy()
    fake.answers["/healthz"] = http(b"[-]syncloop failed", 500)
    assert not client.healthy()
    assert not any("Authorization" in head for head in fake.heads)


def test_a_token_is_read_anew_for_each_question(fake: FakeKubeletApi, pki: Pki, tmp_path: Path) -> None:
    file = tmp_path / "token"
    client = api(fake, pki.der("server.crt"), access=Access(token=str(file)))
    fake.answers["/pods"] = pod_list()
    for token in (SECRET, SECRET + "x"):
        file.write_text(token + "\n")
        assert client.pods() == ()
        assert f"\r\nAuthorization: Bearer {token}\r\n" in fake.heads[-1]


def test_a_client_certificate(pki: Pki) -> None:
    with FakeKubeletApi(pki["server.crt"], pki["server.key"], pki["authority.crt"]) as fake:
        fake.answers["/pods"] = pod_list()
        both = pki["both.pem"]
        both.write_text(pki["client.crt"].read_text() + pki["client.key"].read_text())
        mine = Access(certificate=str(pki["client.crt"]), key=str(pki["client.key"]))
        for access in (mine, Access(certificate=str(both))):  # kubelet keeps both in one file.
            assert api(fake, pki.der("server.crt"), access=access).pods() == ()
        with pytest.raises(kubeletapi.KubeletSilent):
            api(fake, pki.der("server.crt")).pods()


def test_no_token_for_who_is_not_kubelet(fake: FakeKubeletApi, pki: Pki, tmp_path: Path) -> None:
    """Another certificate on the port, whoever has signed it: nothing is asked."""
    (tmp_path / "token").write_text(SECRET)
    token = str(tmp_path / "token")
    clients = (
        api(fake, access=Access(token=token)),
        api(fake, pki.der("stranger.crt"), access=Access(token=token)),
        # Its own file decides where there is one.
        api(fake, pki.der("stranger.crt"), access=Access(token=token, authority=str(pki["authority.crt"]))),
        api(fake, access=Access(token=token, authority=str(pki["stranger.crt"]))),
    )
    for client in clients:
        with pytest.raises(kubeletapi.KubeletNotTrusted) as caught:
            client.pods()
        assert SECRET not in str(caught.value)
    assert fake.heads == []
    fake.answers["/pods"] = pod_list()
    assert api(fake, access=Access(token=token, authority=str(pki["authority.crt"]))).pods() == ()


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_denied(fake: FakeKubeletApi, pki: Pki, status: int) -> None:
    fake.answers["/pods"] = http(b"Forbidden (user=x, verb=get)", status)
    with pytest.raises(kubeletapi.KubeletDenies, match=f"/pods: HTTP {status}.*nodes/pods"):
        api(fake, pki.der("server.crt")).pods()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "no HTTP answer"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "no HTTP answer"),
        (b"HTTP/1.0 200 OK\r\n", "no HTTP answer"),
        (b"HTTP/1.0 200 OK\r\nX: " + b"a" * 70_000 + b"\r\n\r\n{}", "no HTTP answer"),
        (http(b'{"kind":"PodList"', length=900), "cut off"),
        (http(b"<html>"), "no PodList"),
        (http(b'{"kind":"NodeList"}'), "no PodList"),
        (http(b'{"kind":"PodList","items":[{"metadata":1}]}'), "no PodList"),
    ],
)
def test_answers_that_are_none(fake: FakeKubeletApi, pki: Pki, answer: bytes, why: str) -> None:
    fake.answers["/pods"] = answer
    with pytest.raises(kubeletapi.KubeletUnclear, match=why):
        api(fake, pki.der("server.crt")).pods()


def test_an_endless_answer(fake: FakeKubeletApi, pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeletapi, "MAX_ANSWER", 200_000)

    def endless(secured: ssl.SSLSocket) -> None:
        while True:
            secured.sendall(b"a" * 65536)

    fake.answers["/pods"] = endless
    with pytest.raises(kubeletapi.KubeletUnclear, match="more than 200000 bytes"):
        api(fake, pki.der("server.crt")).pods()


def test_a_drip_is_bounded_as_a_whole(fake: FakeKubeletApi, pki: Pki) -> None:
    """Each byte comes in time, and the answer does not."""

    def drip(secured: ssl.SSLSocket) -> None:
        for _ in range(100):
            secured.sendall(b"H")
            time.sleep(0.1)

    fake.answers["/pods"] = drip
    client = api(fake, pki.der("server.crt"), deadline=0.5)
    began = time.monotonic()
    with pytest.raises(kubeletapi.KubeletSilent, match="no whole answer in time|timed out"):
        client.pods()
    assert time.monotonic() - began < 5


def test_nobody_listens(pki: Pki) -> None:
    with FakeKubeletApi(pki["server.crt"], pki["server.key"]) as fake:
        client = api(fake)
    with pytest.raises(kubeletapi.KubeletSilent, match="refused"):
        client.healthy()


@pytest.mark.parametrize("content", [b"", b"two words", b"\xff\xfe", b"line\r\nX-Injected: 1", b"a" * 70_000])
def test_a_token_that_is_none(fake: FakeKubeletApi, pki: Pki, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(kubeletapi.CredentialUnusable) as caught:
        api(fake, pki.der("server.crt"), access=Access(token=str(tmp_path / "token"))).pods()
    assert "words" not in str(caught.value) and "Injected" not in str(caught.value) and fake.heads == []


def test_credentials_that_cannot_be_used(fake: FakeKubeletApi, pki: Pki, tmp_path: Path) -> None:
    """Not there, not a certificate, or with a key that would have to be unlocked: an error, and no question to a
    person."""
    locked = tmp_path / "locked.key"
    subprocess.run(
        ["openssl", "ec", "-in", str(pki["client.key"]), "-aes128", "-passout", "pass:x", "-out", str(locked)],
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    (tmp_path / "text").write_text(SECRET)
    serving = pki.der("server.crt")
    for access in (
        Access(token=str(tmp_path / "none")),
        Access(certificate=str(tmp_path / "none")),
        Access(certificate=str(tmp_path / "text")),
        Access(certificate=str(pki["client.crt"]), key=str(pki["stranger.key"])),
        Access(certificate=str(pki["client.crt"]), key=str(locked)),
    ):
        with pytest.raises(kubeletapi.CredentialUnusable) as caught:
            api(fake, serving, access=access).pods()
        assert SECRET not in str(caught.value) and "see" in caught.value.hint
    with pytest.raises(kubeletapi.CredentialUnusable):
        api(fake, access=Access(authority=str(tmp_path / "text"))).pods()


@pytest.mark.parametrize("text", ["2026-13-01T00:00:00Z", "2026-12-01 00:00:00", "", "9999999-01-01T00:00:00Z"])
def test_a_time_that_is_none(text: str) -> None:
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": text}
    document = {"kind": "PodList", "items": [{"metadata": {}, "status": {"conditions": [condition]}}]}
    (pod,) = kubeletpods.pods(json.dumps(document).encode())
    assert (pod.ready, pod.ready_changed_wall) == (True, None)


def test_more_pods_than_a_node_has() -> None:
    document = {"kind": "PodList", "items": [{"metadata": {}}] * (kubeletpods.MAX_PODS + 1)}
    with pytest.raises(kubeletpods.Unclear, match="4000"):
        kubeletpods.pods(json.dumps(document).encode())


@pytest.mark.parametrize("text", [b"", b"kubelet_pleg_last_seen_seconds NaN\n", b"xkubelet_pleg_last_seen_seconds 1\n",
                                  b"kubelet_pleg_last_seen_seconds 1e9.e\n"])  # fmt: skip
def test_metrics_without_pleg(text: bytes) -> None:
    assert kubeletpods.pleg(text) is None

# SPDX-License-Identifier: Apache-2.0
"""kubelet's API on port 10250: reads what it is to run, what it runs and how it is, where a credential allows that.

Each question is a connection of its own, as HTTP/1.0, which ends with the answer: so both its bytes and its time are
bounded as a whole, and a credential that was renewed is read anew. No token is sent before the other end has shown
the certificate that kubelet has on this node's disk, or one that the given authority has signed. Names are not
checked: the address is this node's own.

Source: kubernetes pkg/kubelet/server/server.go, auth.go, KEP-2862 (nodes/pods, nodes/healthz, nodes/metrics)."""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from collections.abc import Sequence
from typing import NamedTuple, Optional

from ostreewatchd.model import PodSeen
from ostreewatchd.parse import kubeletpods
from ostreewatchd.peers.errors import PeerError

MAX_ANSWER = 32 << 20
"""Bytes of one answer: a thousand pods of 30 KiB each."""
MAX_FILE = 64 << 10
"""Of a credential's file."""
_MAX_HEAD = 64 << 10
_CHUNK = 64 << 10
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_LENGTH = re.compile(rb"^content-length:\s*(\d{1,12})\s*$", re.IGNORECASE | re.MULTILINE)


class KubeletError(PeerError):
    """The base of all errors of this client."""


class KubeletSilent(KubeletError):
    """Nobody listens, or no whole answer came in time."""


class KubeletDenies(KubeletError):
    """It answers, and what it was asked for is not for who asks (401, 403), or it is turned off (404, 405)."""


class KubeletNotTrusted(KubeletError):
    """The other end has not shown that it is this node's kubelet: no credential was sent, nothing was asked."""


class KubeletUnclear(KubeletError):
    """The answer is too large, was cut off, or is not what was asked for."""


class KubeletUnwell(KubeletError):
    """It answers that it is not well (5xx), or in another way that is none of the above."""


class CredentialUnusable(KubeletError):
    """The credential that the configuration names cannot be read or used."""


class Access(NamedTuple):
    """Paths of what kubelet is asked with; all empty: it is asked without any."""

    token: str = ""
    certificate: str = ""
    key: str = ""
    """Empty: it is in the certificate's file."""
    authority: str = ""
    """Who must have signed kubelet's serving certificate, where it is not known from its own file."""


class KubeletApi:
    """The reading half; there is no other. Each method is one question within the deadline; it raises a
    KubeletError."""

    def __init__(self, address: str, port: int, access: Access, serving: Sequence[bytes], *, deadline: float) -> None:
        """`serving`: DER of certificates that kubelet may serve with, from its own files. `deadline`: seconds for a
        whole answer."""
        self._address = address
        self._port = port
        self._access = access
        self._serving = frozenset(serving)
        self._deadline = deadline
        self.where = f"https://{f'[{address}]' if ':' in address else address}:{port}"

    def healthy(self) -> bool:
        """/healthz: ping, log, syncloop."""
        try:
            self._get("/healthz")
        except KubeletUnwell:
            return False
        return True

    def pods(self) -> tuple[PodSeen, ...]:
        """/pods: those that it is to run."""
        return self._list("/pods")

    def running(self) -> tuple[str, ...]:
        """/runningpods/: UIDs of those that its runtime has at this moment."""
        return tuple(pod.uid for pod in self._list("/runningpods/"))

    def pleg(self) -> Optional[float]:
        """/metrics: when it last looked through its runtime's containers, in seconds since the epoch; None where it
        has no such metric."""
        return kubeletpods.pleg(self._get("/metrics"))

    def _list(self, path: str) -> tuple[PodSeen, ...]:
        data = self._get(path)
        try:
            return kubeletpods.pods(data)
        except kubeletpods.Unclear as error:
            raise self._unclear(path, str(error)) from error

    def _get(self, path: str) -> bytes:
        ends = time.monotonic() + self._deadline
        try:
            with socket.create_connection((self._address, self._port), timeout=self._deadline) as plain:
                plain.settimeout(_left(ends))
                with self._context().wrap_socket(plain) as secured:
                    self._check(secured)
                    secured.settimeout(_left(ends))
                    secured.sendall(self._request(path))
                    answer = self._read(secured, path, ends)
        except ssl.SSLCertVerificationError as error:
            raise self._not_trusted(error.verify_message) from error
        except OSError as error:
            why = error.strerror or str(error) or type(error).__name__
            raise KubeletSilent(f"{self.where}{path} does not answer: {why}", "see kubelet's journal") from error
        return self._body(path, answer)

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # _check compares it with kubelet's own file.
        access = self._access
        try:
            if access.authority and not self._serving:
                context.load_verify_locations(access.authority)
                context.verify_mode = ssl.CERT_REQUIRED
            if access.certificate:
                # An encrypted key must fail, not ask at a terminal.
                context.load_cert_chain(access.certificate, access.key or None, password=lambda: b"")
        except (OSError, ValueError) as error:
            # ssl's own text may quote nothing of the file, and is not needed.
            name = access.certificate or access.authority
            why = getattr(error, "strerror", None) or type(error).__name__
            raise CredentialUnusable(f"{name}: cannot be used: {why}", "see [Kubelet] in the configuration") from None
        return context

    def _check(self, secured: ssl.SSLSocket) -> None:
        """Raises KubeletNotTrusted."""
        shown = secured.getpeercert(binary_form=True)
        if shown is not None and shown in self._serving:
            return
        if secured.context.verify_mode == ssl.CERT_REQUIRED:
            return  # The handshake would have failed.
        raise self._not_trusted("it is not the one in kubelet's own file")

    def _not_trusted(self, why: str) -> KubeletNotTrusted:
        return KubeletNotTrusted(
            f"what {self.where} shows as its certificate cannot be trusted: {why}",
            "set CertificateAuthority= in [Kubelet] to who signs kubelet's serving certificates",
        )

    def _request(self, path: str) -> bytes:
        lines = [f"GET {path} HTTP/1.0", f"Host: {self._address}", "Accept: */*", "User-Agent: ostreewatchd"]
        if self._access.token:
            lines.append(f"Authorization: Bearer {_token(self._access.token)}")
        return "\r\n".join((*lines, "", "")).encode()

    def _read(self, secured: ssl.SSLSocket, path: str, ends: float) -> bytes:
        data = bytearray()
        while True:
            secured.settimeout(_left(ends))
            try:
                chunk = secured.recv(_CHUNK)
            except ssl.SSLEOFError:
                chunk = b""  # Whether all is there the length tells.
            if not chunk:
                return bytes(data)
            data += chunk
            if len(data) > MAX_ANSWER:
                raise self._unclear(path, f"it has more than {MAX_ANSWER} bytes")

    def _body(self, path: str, answer: bytes) -> bytes:
        head, blank, body = answer.partition(b"\r\n\r\n")
        match = _STATUS.match(head)
        if not match or not blank or len(head) > _MAX_HEAD:
            raise self._unclear(path, "it is no HTTP answer")
        status = int(match.group(1))
        if status in (401, 403, 404, 405):
            hint = "give it a credential that may `get` nodes/pods, nodes/healthz and nodes/metrics"
            raise KubeletDenies(f"{self.where}{path}: HTTP {status}", hint)
        length = _LENGTH.search(head)
        if length and int(length.group(1)) != len(body):
            raise self._unclear(path, "it was cut off")
        if status != 200:
            raise KubeletUnwell(f"{self.where}{path}: HTTP {status}", "see kubelet's journal")
        return body

    def _unclear(self, path: str, why: str) -> KubeletUnclear:
        return KubeletUnclear(f"the answer of {self.where} to {path} is not used: {why}", "see kubelet's journal")


def _left(ends: float) -> float:
    """Seconds; raises TimeoutError."""
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError("no whole answer in time")
    return left


def _token(path: str) -> str:
    """Raises CredentialUnusable, with nothing of the file's content in it."""
    hint = "see TokenFile= in [Kubelet]"
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise CredentialUnusable(f"{path}: {error.strerror}", hint) from error
    token = data.strip()
    if not token or len(data) > MAX_FILE or not token.isascii() or any(byte <= 32 or byte == 127 for byte in token):
        raise CredentialUnusable(f"{path}: it has no token, or more than that", hint)
    return token.decode("ascii")

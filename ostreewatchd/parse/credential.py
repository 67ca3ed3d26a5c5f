# SPDX-License-Identifier: Apache-2.0
"""With what a kubeconfig of a CNI plugin reaches the API server, read without YAML, which the watcher does not load:
each writer makes its file from a template of a few lines, in block style, with quotes or without; JSON looks the same.

Sources: projectcalico/calico node/pkg/cni/token_watch.go (token without quotes), k8snetworkplumbingwg/multus-cni
cmd/thin_entrypoint and whereabouts script/lib.sh (with), istio cni/pkg/install/kubeconfig.go; kubeconfig v1."""

from __future__ import annotations

import base64
import binascii
import re
from typing import NamedTuple, Optional

from ostreewatchd.model.credential import CredentialKind
from ostreewatchd.parse import jwt, x509

MAX_BYTES = 64 << 10
_COMMENT = re.compile(rb"(?m)(?:^|(?<=\s))#[^\n]*")
_USERS = re.compile(rb"""(?m)(?:^|[\s{,])["']?users["']?\s*:""")
_VALUE = rb"""["']?\s*:[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|([^\s#,}\]"']+))"""
_TOKEN = re.compile(rb"""(?m)(?:^|[\s{,"'])token""" + _VALUE)
_CERTIFICATE = re.compile(rb"""(?m)(?:^|[\s{,"'])client-certificate-data""" + _VALUE)
_OTHER = re.compile(rb"""(?m)(?:^|[\s{,"'])(?:tokenFile|client-certificate|exec|auth-provider|username)["']?\s*:""")


class CredentialError(ValueError):
    """It cannot be told what is in the file. The text says why, and holds nothing of it."""


class Found(NamedTuple):
    """`secret`, to be compared and never kept, is the token or the certificate as it stands there; the rest as in
    model.Credential."""

    secret: bytes
    kind: CredentialKind
    issued_at: Optional[float] = None
    expires_at: Optional[float] = None
    warn_after: Optional[float] = None
    subject: str = ""
    pod: str = ""
    pod_uid: str = ""
    key_id: str = ""

    def __repr__(self) -> str:
        """Without the secret, wherever it is printed."""
        return f"Found(kind={self.kind!r})"


def is_kubeconfig(data: bytes) -> bool:
    """By its shape, whatever its name is."""
    return _USERS.search(_COMMENT.sub(b"", data[:MAX_BYTES])) is not None


def of_kubeconfig(data: bytes) -> Found:
    """The credential of its only user. Raises CredentialError: for a file that is empty, cut off or too long, too."""
    _check(data)
    data = _COMMENT.sub(b"", data)
    if _USERS.search(data) is None:
        raise CredentialError("has no users: cut off, or no kubeconfig")
    tokens = _values(_TOKEN, data)
    if len(tokens) > 1:
        raise CredentialError("has several tokens")
    if tokens:
        return of_token(tokens.pop())
    certificates = _values(_CERTIFICATE, data)
    if len(certificates) > 1:
        raise CredentialError("has several certificates")
    if certificates:
        return _of_certificate_data(certificates.pop())
    if _OTHER.search(data):
        return Found(b"", "other")
    raise CredentialError("its user has no credential: cut off, or written without")


def of_token(token: bytes) -> Found:
    """A token. One that is no service account's says nothing of itself. Raises CredentialError."""
    if not token:
        raise CredentialError("its token is empty")
    if not jwt.is_like_one(token):
        return Found(token, "token")
    try:
        claims = jwt.claims(token)
    except jwt.TokenError as error:
        raise CredentialError(f"its token {error}") from None
    return Found(token, "token", *claims)


def of_certificate(data: bytes) -> Found:
    """The first certificate of a PEM file. Raises CredentialError."""
    _check(data)
    known = x509.parse(data)
    if not known:
        raise CredentialError("has no certificate: cut off, or no PEM")
    one = known[0]
    return Found(data, "certificate", one.starts_at, one.ends_at, None, one.subject)


def _of_certificate_data(text: bytes) -> Found:
    try:
        return of_certificate(base64.b64decode(text, validate=True))
    except binascii.Error:
        raise CredentialError("its certificate is no base64") from None


def _check(data: bytes) -> None:
    if not data.strip():
        raise CredentialError("is empty")
    if len(data) > MAX_BYTES:
        raise CredentialError(f"has more than {MAX_BYTES} bytes")


def _values(key: re.Pattern[bytes], data: bytes) -> set[bytes]:
    return {next((one for one in match.groups() if one is not None), b"").strip() for match in key.finditer(data)}

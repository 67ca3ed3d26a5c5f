# SPDX-License-Identifier: Apache-2.0
"""Kubeconfigs of CNI plugins and the tokens in them: each writer's form, and all that can be wrong with one. Whatever
is wrong, no error holds anything of the file (DESIGN invariant 10)."""

from __future__ import annotations

import base64
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostreewatchd.model import Credential
from ostreewatchd.observe.credentials import _Read
from ostreewatchd.parse import credential, jwt
from tests.fakes.credentials import FORMS, HOUR, SIGNATURE, kubeconfig, part, token

NOW = 1_800_000_000.0
HEADER = part({"alg": "RS256"})
BOUND = token(NOW, 365 * 24 * HOUR, warns=3607, pod="kube-multus-x1", uid="7a2e", account="multus", key="k2")


@pytest.mark.parametrize("writer", FORMS)
def test_each_writers_form(writer: str) -> None:
    """Claims as pkg/serviceaccount/claims.go names them: an extended token of 3607 s that ends in a year."""
    data = kubeconfig(writer, BOUND).encode()
    assert credential.is_kubeconfig(data)
    found = credential.of_kubeconfig(data)
    assert found == credential.Found(
        BOUND.encode(), "token", NOW, NOW + 365 * 86400, NOW + 3607, "system:serviceaccount:kube-system:multus",
        "kube-multus-x1", "7a2e", "k2",
    )  # fmt: skip
    assert SIGNATURE not in repr(found) and "eyJ" not in str(found)


def test_an_unbound_token_and_one_without_an_end() -> None:
    found = credential.of_kubeconfig(kubeconfig("calico", token(NOW)).encode())
    assert (found.issued_at, found.expires_at, found.warn_after) == (NOW, NOW + 86400, None)
    assert not found.pod and not found.pod_uid
    legacy = ".".join((part({"alg": "RS256"}), part({"sub": "system:serviceaccount:kube-system:x"}), SIGNATURE))
    assert credential.of_token(legacy.encode()).expires_at is None


def test_what_is_no_service_accounts_token_says_nothing() -> None:
    """A static token of the API server's, or of somebody's own."""
    found = credential.of_kubeconfig(kubeconfig("multus", "abcdef.0123456789abcdef").encode())
    assert found == credential.Found(b"abcdef.0123456789abcdef", "token")


@pytest.mark.parametrize(("text", "kind"), [
    ("users: [{user: {tokenFile: /var/run/token}}]", "other"),
    ("users:\n- user:\n    exec: {command: aws}", "other"),
    ("users:\n- user:\n    client-certificate: /etc/cni/multus/certs/multus-client-current.pem", "other"),
    ('{"users":[{"user":{"token":"abc"}}]}', "token"),
    ("users: [{user: {token: 'abc'}}]", "token"),
])  # fmt: skip
def test_other_kinds(text: str, kind: str) -> None:
    assert credential.of_kubeconfig(text.encode()).kind == kind


WRONG = {
    "": "is empty",
    "\n\n": "is empty",
    "users: []": "has no credential",
    "kind: Config": "has no users",
    "users:\n- user:\n    token:\n": "has no credential",
    'users:\n- user:\n    token: ""\n': "token is empty",
    'users:\n- user:\n    token: "eyJhbGciOi': "has no credential",
    "users:\n- user:\n    token: eyJhbGciOi": "token has not three parts",
    "users:\n- user:\n    # token: abc\n": "has no credential",
    "users:\n- user:\n    token: abc\n- user:\n    token: abd\n": "has several tokens",
    f"users: [{{user: {{token: eyJh.{HEADER}.c2ln}}}}]": "its header cannot be read",
    f"users: [{{user: {{token: {HEADER}.{part([])}.c2ln}}}}]": "its claims cannot be read",
    f"users: [{{user: {{token: {HEADER}.e30*.c2ln}}}}]": "its claims cannot be read",
    f"users: [{{user: {{token: {HEADER}..c2ln}}}}]": "has not three parts",
    f"users: [{{user: {{token: {token(NOW, exp='tomorrow')}}}}}]": "its exp is no time",
    f"users: [{{user: {{token: {token(NOW, exp=1e300)}}}}}]": "its exp is no time",
    f"users: [{{user: {{token: {token(NOW, iat=True)}}}}}]": "its iat is no time",
    f"users: [{{user: {{token: {token(NOW)}{'x' * jwt.MAX_BYTES}}}}}]": "more than 16384 bytes",
    "users:\n- user: {client-certificate-data: '*'}\n": "no base64",
    "users:\n- user: {client-certificate-data: YWJj}\n": "has no certificate",
    "users:\n- user: {client-certificate-data: YWJj}\n- user: {client-certificate-data: YWJk}": "several certificates",
    "users: " + " " * credential.MAX_BYTES: "more than 65536 bytes",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: WRONG[text])
def test_what_is_wrong_has_a_name(text: str) -> None:
    with pytest.raises(credential.CredentialError, match=WRONG[text]):
        credential.of_kubeconfig(text.encode())


def test_nested_too_deep() -> None:
    deep = base64.urlsafe_b64encode(b'{"a":' + b"[" * 5000).rstrip(b"=")
    with pytest.raises(jwt.TokenError, match="claims cannot be read"):
        jwt.claims(b".".join((part({}).encode(), deep, b"c2ln")))


@pytest.mark.parametrize("writer", FORMS)
def test_half_written_is_an_error_or_has_the_right_dates(writer: str) -> None:
    """Cut at each byte: a truncating writer may be seen at any. Nothing of the file is in the error, nor behind it."""
    data = kubeconfig(writer, BOUND).encode()
    whole = credential.of_kubeconfig(data)
    for end in range(len(data)):
        try:
            found = credential.of_kubeconfig(data[:end])
        except credential.CredentialError as error:
            text = "".join(traceback.format_exception(type(error), error, None, chain=True))
            assert error.__cause__ is None and not any(one in text for one in ("eyJ", SIGNATURE[:8], "local"))
        else:
            assert found[2:] == whole[2:] and found.kind == "token", end


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    for call in (credential.of_kubeconfig, credential.of_token, credential.of_certificate):
        for text in (data, b"users:\n- user:\n    token: eyJ" + data, b"eyJ" + data):
            try:
                call(text)
            except credential.CredentialError as error:
                assert "eyJ" not in str(error)
    credential.is_kubeconfig(data)


def test_what_is_compared_is_never_printed() -> None:
    assert SIGNATURE not in repr(_Read(Credential(path="/etc/cni/net.d/calico-kubeconfig"), BOUND.encode()))

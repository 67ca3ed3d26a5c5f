# SPDX-License-Identifier: Apache-2.0
"""Which API server a kubeconfig names, and how it is reached. What credential stands in it is in credential.py.

Source: Kubernetes client authentication, kubeconfig v1 (clusters, contexts, current-context)."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ostreewatchd.parse import yamltext

MAX_BYTES = 1 << 20
_BRACKETS = re.compile(r"\[([0-9.]+)\]")


class KubeconfigError(ValueError):
    """Not a kubeconfig, or one without a cluster."""


def server(data: bytes) -> str:
    """The URL of the current context's cluster. Raises KubeconfigError, whose text holds nothing of the file."""
    document = _mapping(data)
    clusters = _named(document, "clusters", "cluster")
    context = _named(document, "contexts", "context").get(str(document.get("current-context", "")), {})
    chosen = clusters.get(str(context.get("cluster", ""))) or next(iter(clusters.values()), {})
    url = chosen.get("server")
    if not isinstance(url, str) or not url.startswith(("https://", "http://")):
        raise KubeconfigError("names no cluster's server")
    return url


def _mapping(data: bytes) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise KubeconfigError(f"larger than {MAX_BYTES} bytes")
    try:
        document = yamltext.load(data)
    except yamltext.NotYaml:
        raise KubeconfigError("not YAML") from None
    if not isinstance(document, dict):
        raise KubeconfigError("not a mapping")
    return document


class Access(NamedTuple):
    """How a kubeconfig reaches its API server. `token`, `certificate` and `key` are secrets: they are used and never
    kept."""

    host: str
    port: int
    authority: bytes
    """Certificates in PEM; empty: those that the system trusts, or none are asked for."""
    checked: bool
    """Whether the server's certificate is: insecure-skip-tls-verify says no."""
    token: str
    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        """Without the secrets, wherever it is printed."""
        return f"Access(host={self.host!r}, port={self.port})"


def access(data: bytes) -> Access:
    """Of its current context, with the credential that stands in the file itself. Raises KubeconfigError, whose text
    holds nothing of the file."""
    try:
        # Some writers put an IPv4 address into brackets.
        url = urlsplit(_BRACKETS.sub(r"\1", server(data)))
    except ValueError:
        raise KubeconfigError("its server is no URL") from None
    document = _mapping(data)
    context = _named(document, "contexts", "context").get(str(document.get("current-context", "")), {})
    clusters, users = _named(document, "clusters", "cluster"), _named(document, "users", "user")
    cluster = clusters.get(str(context.get("cluster", ""))) or next(iter(clusters.values()), {})
    user = users.get(str(context.get("user", ""))) or next(iter(users.values()), {})
    try:
        host, port = url.hostname or "", url.port or 443
    except ValueError:
        raise KubeconfigError("names no port") from None
    token = user.get("token")
    if url.scheme != "https" or not host or not (isinstance(token, str) or "client-certificate-data" in user):
        raise KubeconfigError("has no credential of its own, or no https server")
    return Access(
        _unmapped(host),
        port,
        _data(cluster, "certificate-authority-data"),
        cluster.get("insecure-skip-tls-verify") is not True,
        token if isinstance(token, str) and token.isascii() and token.isprintable() and " " not in token else "",
        _data(user, "client-certificate-data"),
        _data(user, "client-key-data"),
    )


def _unmapped(host: str) -> str:
    """An IPv4 address that is written as an IPv6 one is that IPv4 address, in certificates too. Source: RFC 4291
    2.5.5.2; Go's net.ParseIP and crypto/x509, by which the server's other clients go."""
    try:
        mapped = ipaddress.IPv6Address(host).ipv4_mapped
    except ValueError:
        return host
    return str(mapped) if mapped is not None else host


def _data(values: dict[str, Any], name: str) -> bytes:
    text = values.get(name)
    try:
        return base64.b64decode(text, validate=True) if isinstance(text, str) else b""
    except (binascii.Error, ValueError):
        raise KubeconfigError(f"its {name} is no base64") from None


def _named(document: dict[str, Any], plural: str, singular: str) -> dict[str, dict[str, Any]]:
    entries = document.get(plural)
    found: dict[str, dict[str, Any]] = {}
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get(singular), dict):
            found[str(entry.get("name", ""))] = entry[singular]
    return found

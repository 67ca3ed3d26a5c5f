# SPDX-License-Identifier: Apache-2.0
"""Whether an API server accepts a credential. It is sent to nobody who has not shown a certificate that the
kubeconfig's own authority has signed, and no text of an error holds it.

/version is open to everybody, also to those who are nobody; a token that is no good is refused before that is asked
(401). A server that has just started, or has lost its etcd, refuses good ones too: its refusal counts only if it then
says that it is ready, which it tells everybody.

Source: kubernetes staging/src/k8s.io/apiserver/pkg/endpoints/filters/authentication.go."""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from typing import Optional

from ostreewatchd.parse.kubeconfig import Access

_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})[ \r]")
_MAX_HEAD = 4096
_READY, _REFUSED = 200, 401


def accepts(access: Access, *, deadline: float) -> Optional[bool]:
    """Within the deadline (seconds); None: it does not answer, or in a way that does not tell."""
    ends = time.monotonic() + deadline
    if not access.checked:
        return None
    try:
        status = _ask(access, "/version", ends)
        if status == _REFUSED:
            nobody = access._replace(token="", certificate=b"", key=b"")
            return False if _ask(nobody, "/readyz", ends) == _READY else None
    except (OSError, ValueError):
        return None
    return None if status is None or status >= 500 else True


def _ask(access: Access, path: str, ends: float) -> Optional[int]:
    """The status that it answers with. Raises OSError and ValueError."""
    context = _context(access)
    with socket.create_connection((access.host, access.port), timeout=_left(ends)) as plain:
        plain.settimeout(_left(ends))
        with context.wrap_socket(plain, server_hostname=access.host) as secured:
            secured.settimeout(_left(ends))
            secured.sendall(_request(access, path))
            return _status(secured, ends)


def _context(access: Access) -> ssl.SSLContext:
    """Raises OSError or ValueError for a certificate or an authority that cannot be used."""
    context = ssl.create_default_context(cadata=access.authority.decode("ascii") if access.authority else None)
    if access.certificate:
        # Only from a file; this one is in memory alone.
        fd = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(fd, access.certificate + b"\n" + access.key)
            context.load_cert_chain(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
    return context


def _request(access: Access, path: str) -> bytes:
    host = f"[{access.host}]" if ":" in access.host else access.host
    token = f"Authorization: Bearer {access.token}\r\n" if access.token else ""
    return f"GET {path} HTTP/1.0\r\nHost: {host}:{access.port}\r\n{token}Accept: */*\r\n\r\n".encode("ascii")


def _status(secured: ssl.SSLSocket, ends: float) -> Optional[int]:
    head = b""
    while b"\n" not in head and len(head) < _MAX_HEAD:
        secured.settimeout(_left(ends))
        chunk = secured.recv(_MAX_HEAD)
        if not chunk:
            break
        head += chunk
    match = _STATUS.match(head)
    return int(match.group(1)) if match is not None else None


def _left(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left

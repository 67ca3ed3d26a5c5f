# SPDX-License-Identifier: Apache-2.0
"""Whether an HTTP server answers, and with which status. Sends no credential and reads no more than a little."""

from __future__ import annotations

import http.client
import ssl
from urllib.parse import urlsplit

from ostreewatchd.peers.errors import PeerError

_MAX_BODY = 4096


class NoAnswer(PeerError):
    """Nothing came back in time."""


def get(url: str, *, deadline: float) -> tuple[int, bytes]:
    """Status and the first few KiB of the body. Raises NoAnswer.

    The certificate is not checked: the question is whether anybody answers, nothing secret is sent, and
    nothing that comes back is trusted with more than that."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, parts.port or 443, timeout=deadline, context=context)
    else:
        connection = http.client.HTTPConnection(host, parts.port or 80, timeout=deadline)
    try:
        connection.request("GET", parts.path or "/", headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read(_MAX_BODY)
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = str(error) or type(error).__name__
        raise NoAnswer(
            f"{parts.scheme}://{parts.netloc} does not answer: {why}", "see that it runs and is reachable"
        ) from error
    finally:
        connection.close()

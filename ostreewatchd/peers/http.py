# SPDX-License-Identifier: Apache-2.0
"""Whether an HTTP server answers, and with which status. Sends no credential and reads no more than a little."""

from __future__ import annotations

import http.client
import ssl
import threading
from typing import Union
from urllib.parse import SplitResult, urlsplit

from ostreewatchd.peers.errors import PeerError

_MAX_BODY = 4096


class NoAnswer(PeerError):
    """Nothing came back in time."""


def get(url: str, *, deadline: float) -> tuple[int, bytes]:
    """Status and the first few KiB of the body. Raises NoAnswer.

    In a thread of its own, which is left behind if it is late: a socket's time limit is one of each read, and a
    name's resolution has none. The certificate is not checked: the question is whether anybody answers, nothing
    secret is sent, and nothing that comes back is trusted with more than that."""
    parts = urlsplit(url)
    where = f"{parts.scheme}://{parts.hostname or ''}:{_port(parts)}"
    answers: list[Union[tuple[int, bytes], Exception]] = []

    def work() -> None:
        try:
            answers.append(_get(parts, deadline))
        except (OSError, http.client.HTTPException, ValueError) as error:
            answers.append(error)

    thread = threading.Thread(target=work, name="http", daemon=True)
    thread.start()
    thread.join(deadline)
    answer = answers[0] if answers else TimeoutError(f"nothing within {deadline:g} s")
    if isinstance(answer, Exception):
        why = str(answer) or type(answer).__name__
        raise NoAnswer(f"{where} does not answer: {why}", "see that it runs and is reachable") from answer
    return answer


def _port(parts: SplitResult) -> int:
    try:
        return parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return 0


def _get(parts: SplitResult, deadline: float) -> tuple[int, bytes]:
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(parts.hostname or "", _port(parts), timeout=deadline, context=context)
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", _port(parts), timeout=deadline)
    try:
        connection.request("GET", parts.path or "/", headers={"Connection": "close"})
        answer = connection.getresponse()
        return answer.status, answer.read(_MAX_BODY)
    finally:
        connection.close()

# SPDX-License-Identifier: Apache-2.0
"""The dates and names in a service account's token. Its signature is not looked at: nothing here says that an API
server would take it.

Sources: RFC 7515 §7.1 and RFC 7519 §4.1 (three parts of base64url, exp and iat); Kubernetes
pkg/serviceaccount/claims.go (kubernetes.io with pod and warnafter)."""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple, Optional

import msgspec

MAX_BYTES = 16 << 10
_MAX_TEXT = 512
_LATEST = 1e11
"""Seconds since the epoch. No token lasts until the year 5138, and what shows dates need not know what to do then."""


class TokenError(ValueError):
    """Not a token that can be read. The text says why, and holds nothing of it."""


class Claims(NamedTuple):
    """Seconds since the epoch; None or empty where the token does not say."""

    issued_at: Optional[float]
    expires_at: Optional[float]
    warn_after: Optional[float]
    subject: str
    pod: str
    pod_uid: str
    key_id: str


def claims(token: bytes) -> Claims:
    """What the token says of itself. Raises TokenError."""
    if len(token) > MAX_BYTES:
        raise TokenError(f"has more than {MAX_BYTES} bytes")
    parts = token.split(b".")
    if len(parts) != 3 or not all(parts):
        raise TokenError("has not three parts")
    header, payload = _object(parts[0], "header"), _object(parts[1], "claims")
    own = payload.get("kubernetes.io")
    own = own if isinstance(own, dict) else {}
    pod = own.get("pod")
    pod = pod if isinstance(pod, dict) else {}
    return Claims(
        issued_at=_moment(payload, "iat"),
        expires_at=_moment(payload, "exp"),
        warn_after=_moment(own, "warnafter"),
        subject=_text(payload, "sub"),
        pod=_text(pod, "name"),
        pod_uid=_text(pod, "uid"),
        key_id=_text(header, "kid"),
    )


def is_like_one(token: bytes) -> bool:
    """Whether it may be such a token, or the beginning of one: a JSON object in base64url begins like that."""
    return token[:3] == b"eyJ"[: len(token)]


def _object(part: bytes, what: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(base64.b64decode(part + b"=" * (-len(part) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise TokenError(f"its {what} cannot be read")  # Not `from`: the cause may quote it.
    return found


def _moment(values: dict[str, Any], name: str) -> Optional[float]:
    value = values.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _LATEST:
        raise TokenError(f"its {name} is no time")
    return float(value)


def _text(values: dict[str, Any], name: str) -> str:
    value = values.get(name)
    return value[:_MAX_TEXT] if isinstance(value, str) else ""

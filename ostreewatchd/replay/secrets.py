# SPDX-License-Identifier: Apache-2.0
"""Takes out of a text what looks like a secret.

Nothing of the Snapshot's own is one (DESIGN invariant 10: what holds secrets is never read into it). This is for the
texts of others that it quotes: a mount's line with a URL as its source, an error of the runtime's.

Sources: RFC 7519 (a token's three parts), RFC 3986 §3.2.1 (userinfo), RFC 7468 (the armour around keys), RFC 6750."""

from __future__ import annotations

import re

from ostreewatchd.replay.fields import Kind

_GONE = "(secret taken out)"
_WHOLE = re.compile(
    r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_.-]*"
    r"|-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)"
    r"|(?<![A-Za-z0-9+/_-])(?:LS0tLS1CRUdJTi|LS0tLS1CRUdJT)[A-Za-z0-9+/=]*",
    re.DOTALL,
)
_AFTER = re.compile(
    r"(?i)((?:pass(?:word|wd|phrase|code)?|pwd|secret|token|credentials?|api[_-]?key|access[_-]?key|client[_-]?key"
    r"|account[_-]?key|private[_-]?key|sig(?:nature)?)(?:-data)?[\"']?\s*[=:]\s*[\"']?)(?!\()[^\s,;&\"']+"
)
_BEARER = re.compile(r"(?i)(\b(?:bearer|basic) +)(?!\()[A-Za-z0-9+/=_.~-]{8,}")
_USERINFO = re.compile(r"(//)[^/@\s]+(?=@)")


def without_secrets(text: str, kind: Kind = Kind.TEXT) -> str:
    """The text, with a note where something was taken out. A name or a path is left: it must stay what it is."""
    if kind is not Kind.TEXT:
        return text
    text = _WHOLE.sub(_GONE, text)
    text = _USERINFO.sub(r"\1" + _GONE, text)
    text = _BEARER.sub(r"\1" + _GONE, text)
    return _AFTER.sub(r"\1" + _GONE, text)

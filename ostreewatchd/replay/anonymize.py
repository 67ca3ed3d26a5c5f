# SPDX-License-Identifier: Apache-2.0
"""Replaces what tells whose node it is, so that a snapshot can be handed out and is judged as before.

A name is replaced word by word: the same word by the same one wherever it is in the snapshot, so that what was equal,
what lay below what, and what began with what still does. Words that come with a platform are kept, and in sentences
those of the language; all else is replaced, also in fields that nobody thought of. In the order of their alphabet, so
that of names without a kept word the order is the same too."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from ostreewatchd.model import Snapshot
from ostreewatchd.replay.fields import Kind, change_texts
from ostreewatchd.replay.vocabulary import LANGUAGE, PLATFORM, WORD

_IPV4 = r"(?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9]|\.[0-9])"
_DASHED = r"(?<![0-9])[0-9]{2,3}(?:-[0-9]{1,3}){3}(?![0-9])"
_IPV6 = r"(?<![A-Za-z0-9:.])(?:[0-9A-Fa-f]{0,4}:){2,7}(?:[0-9A-Fa-f]{1,4}|(?<=::))(?![A-Za-z0-9:])"
_UUID = r"(?<![A-Za-z0-9])[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}(?![A-Za-z0-9])"
_EVERYBODYS = re.compile(r"(?:127\.[0-9.]+|0\.0\.0\.0|::|::1)\Z")
_HEX64 = re.compile(r"[0-9a-f]{64}\Z")
_SHORTER, _SHORT = 10, 12
"""How many digits people are shown of a deployment's checksum, and of a container's id."""
_SMALL = re.compile(r"[0-9]{1,2}\Z")


def anonymize(snapshot: Snapshot) -> Snapshot:
    """The same snapshot, of nobody's node."""
    renamed: Snapshot = Renamer(snapshot).renamed(snapshot)
    return msgspec.structs.replace(renamed, anonymized=True)


class Renamer:
    """The replacements for one snapshot; they hold for what is judged of it, too."""

    def __init__(self, snapshot: Snapshot) -> None:
        host = snapshot.node.name.partition(".")[0]
        self._token = _tokens(host)
        self._said: dict[str, str] = {}
        texts: dict[Kind, set[str]] = {kind: set() for kind in Kind}

        def collect(text: str, kind: Kind) -> str:
            texts[kind].add(text)
            return text

        change_texts(snapshot, collect)
        uuids, addresses, words = set(), set(), set()
        for kind in (Kind.NAME, Kind.TEXT):
            for text in texts[kind]:
                for match in self._token.finditer(text):
                    if match.lastgroup == "word" and not _is_kept(match.group(), kind):
                        words.add(match.group())
                    elif match.lastgroup == "uuid":
                        uuids.add(match.group())
                    elif match.lastgroup == "ip" and not _EVERYBODYS.match(match.group()):
                        addresses.add(match.group())
        long = {word for word in words if _HEX64.match(word)}
        self._new = {
            **_numbered(words - long, "w"),
            **_numbered(addresses, "ip"),
            **{uuid: f"00000000-0000-0000-0000-{number:012x}" for number, uuid in enumerate(sorted(uuids), 1)},
            **_hexadecimal(long),
            host: "node1",
        }

    def renamed(self, thing: Any) -> Any:
        """A record, or a tuple of them, with other names."""
        return change_texts(thing, lambda text, kind: text if kind is Kind.KEPT else self.text(text))

    def text(self, text: str) -> str:
        """A text with other names. A word that the snapshot does not have is kept: it is the product's own."""
        said = self._said.get(text)
        if said is None:
            said = self._token.sub(lambda match: self._new.get(match.group(), match.group()), text)
            self._said[text] = said
        return said


def _tokens(node: str) -> re.Pattern[str]:
    """What is replaced as one: also the node's name less its domain, unless that is one word of the platforms'."""
    name = "(?!)"
    if node and not (WORD.fullmatch(node) and node.lower() in PLATFORM):
        name = f"(?<![A-Za-z0-9]){re.escape(node)}(?![A-Za-z0-9])"
    return re.compile(f"(?P<node>{name})|(?P<uuid>{_UUID})|(?P<ip>{_IPV6}|{_IPV4}|{_DASHED})|(?P<word>{WORD.pattern})")


def _is_kept(word: str, kind: Kind) -> bool:
    if word.isdigit():
        return kind is Kind.TEXT or _SMALL.match(word) is not None
    low = word.lower()
    return low in PLATFORM or (kind is Kind.TEXT and low in LANGUAGE)


def _numbered(things: Iterable[str], prefix: str) -> dict[str, str]:
    found = sorted(things)
    width = len(str(len(found)))
    return {thing: f"{prefix}{number:0{width}d}" for number, thing in enumerate(found, start=1)}


def _hexadecimal(words: Iterable[str]) -> dict[str, str]:
    """Checksums and ids of full length, and their beginnings as people are shown them: whatever had the same
    beginning has the same one again."""
    found: dict[str, str] = {}
    shorter: dict[str, dict[str, list[str]]] = {}
    for word in sorted(words):
        shorter.setdefault(word[:_SHORTER], {}).setdefault(word[:_SHORT], []).append(word)
    for first, (beginning, shorts) in enumerate(shorter.items(), start=1):
        found[beginning] = f"{first:0{_SHORTER}x}"
        for second, (short, wholes) in enumerate(shorts.items()):
            found[short] = f"{found[beginning]}{second:02x}"
            for third, whole in enumerate(wholes):
                found[whole] = f"{found[short]}{third:0{64 - _SHORT}x}"
    return found
